"""What `kwire topics`, `groups` and `produce` ask brokers: topics, offsets, groups, as values; and the commands."""
