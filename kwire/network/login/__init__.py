"""Where tokens for OAUTHBEARER come from, and when new ones are asked for."""
