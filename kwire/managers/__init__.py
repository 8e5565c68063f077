"""Request managers: what to ask the cluster, when, and what an answer means. No I/O, no clock, no threads.

Each is polled with the time and answers with unsent requests and the moment it wants to be polled again.
"""
