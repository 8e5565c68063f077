(ns unilog.config)
(defn start-logging! [& _] nil)
