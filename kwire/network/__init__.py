"""The network thread: one trio run that polls the managers and talks to the brokers. The only client code with I/O."""
