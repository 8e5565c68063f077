(ns jepsen.client)
