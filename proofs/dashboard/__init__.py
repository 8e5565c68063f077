"""`scripts/prove dashboard`: the Grafana dashboard's panels over a run with a fault."""
