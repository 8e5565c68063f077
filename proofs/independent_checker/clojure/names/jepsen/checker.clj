(ns jepsen.checker)
(defprotocol Checker (check [checker test history opts]))
(defn stats [& _] nil)
