(ns slingshot.slingshot (:require [potemkin :refer [import-vars]] [clj-commons.slingshot]))
(import-vars [clj-commons.slingshot try+ throw+ get-thrown-object get-throw-context])
