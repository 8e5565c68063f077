"""Groups of both kinds, pure: time comes in as an argument, answers go out through `pending.Pending`."""
