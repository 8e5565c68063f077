(ns rhizome.dot)
(defn graph->dot [& _] nil)
