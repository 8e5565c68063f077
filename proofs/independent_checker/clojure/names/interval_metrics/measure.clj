(ns interval-metrics.measure)
