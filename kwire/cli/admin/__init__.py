"""The commands `kwire topics`, `groups` and `produce`, and their requests to brokers about topics, offsets and
groups."""
