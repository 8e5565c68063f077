;; Judges histories by the checker of Jepsen's workload for Kafka: clojure.main judge.clj FILE...
;;
;; A file has one operation a line, as EDN. For each, one line: its path, what is bad about it by that checker, and all
;; that the checker has found, bad or not, each as NAME=COUNT; with tabs between the three.

(require '[clojure.edn :as edn]
         '[clojure.java.io :as io]
         '[clojure.string :as str]
         '[jepsen.history :as history]
         '[jepsen.tests.kafka :as kafka])

;; Consumers are told as ones that assign themselves, so positions are judged from poll to poll; and the order of the
;; log makes no dependency between sends, so a read of what is yet to be sent is not excused.
(def settings {:sub-via #{:assign} :ww-deps false})

(defn operations [path]
  (with-open [lines (io/reader path)]
    (mapv edn/read-string (line-seq lines))))

(defn cause [error]
  (some #(:type (ex-data %)) (take-while some? (iterate ex-cause error))))

(defn errors-of
  "What was found, by kind. Its checker stops where a value was read that nobody has sent: that is a finding, too."
  [path]
  (try
    (:errors (kafka/analysis (history/history (operations path)) settings))
    (catch Exception error
      (if-let [kind (cause error)]
        {kind [error]}
        (throw error)))))

(defn counted [[kind found]]
  (str (name kind) "=" (if (map? found) (reduce + (vals (:unseen found))) (count found))))

(defn line [path]
  (let [errors (errors-of path)
        bad    (remove (comp (kafka/allowed-error-types settings) key) errors)]
    (str/join "\t" [path (str/join "," (sort (map counted bad))) (str/join "," (sort (map counted errors)))])))

(doseq [path *command-line-args*]
  (println (line path))
  (flush))
(shutdown-agents)
