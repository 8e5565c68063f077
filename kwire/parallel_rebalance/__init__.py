"""What is still to be caught up of a partition after a crash (parallel rebalance). Pure: values in, values out."""
