(ns interval-metrics.core)
