;;; magent-compat.el --- The names of magent for rethread  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: MIT OR Apache-2.0

;;; Commentary:

;; For configurations that were written for magent: with
;;
;;   (require 'magent-compat)
;;
;; its functions, commands and variables are those of rethread.  A session
;; that magent code makes, changes or looks at is then one that a rethread
;; server keeps.
;;
;; What was a slot of a struct there is a function here that reads from the
;; server; `setf' works on it as before.

;;; Code:

(require 'rethread)

(defconst rethread-compat-functions
  '("session-create" "session-p" "session-get" "session-reset"
    "session-add-message" "session-add-tool-result"
    "session-messages" "session-get-messages"
    "session-max-history" "session-id" "session-get-id"
    "session-get-agent" "session-set-agent"
    "session-get-context-size" "session-summarize"
    "session-save" "session-load" "session-list-saved"
    "agent-process" "agent-process-with-agent"
    "agent-registry-get" "agent-registry-list"
    "agent-info-p" "agent-info-name" "agent-info-description" "agent-info-model"
    "clear-session" "show-session" "show-current-agent" "select-agent"
    "prompt" "cancel" "mode")
  "Functions and commands that have the same name here and there, after the prefix.")

(defconst rethread-compat-other-functions
  '((magent-session-agent . rethread-session-get-agent)
    (magent-session-manager . rethread-list-sessions)
    (magent-compact-session . rethread-compact)
    (magent-tools--read-file . rethread-compat-read-file))
  "Functions that are called something else here.")

(defconst rethread-compat-variables
  '((magent--current-session . rethread--current-session)
    (magent-buffer-session . rethread-buffer-session)
    (magent-project-sessions . rethread-project-sessions)
    (magent-max-history . rethread-max-history)
    (magent-sessions-directory . rethread-sessions-directory)
    (magent-mode-map . rethread-mode-map))
  "Variables of magent, and what they are here.")

(defun rethread-compat-read-file (file)
  "Return the contents of FILE, as the tool of magent did."
  (with-temp-buffer
    (insert-file-contents file)
    (buffer-string)))

(defun rethread-compat--alias (old new)
  "Let OLD be another name for the function NEW, in `setf' too."
  (defalias old new (format "What `%s' does; see there." new))
  ;; A struct of that name that was defined before has left instructions for
  ;; the compiler, which would look for slots that are not there.
  (dolist (property '(compiler-macro gv-expander side-effect-free cl-deftype-handler))
    (function-put old property nil))
  (when (function-get new 'gv-expander)
    (function-put old 'gv-expander (function-get new 'gv-expander))))

(dolist (name rethread-compat-functions)
  (rethread-compat--alias (intern (concat "magent-" name)) (intern (concat "rethread-" name))))

(dolist (pair rethread-compat-other-functions)
  (rethread-compat--alias (car pair) (cdr pair)))

(dolist (pair rethread-compat-variables)
  ;; What a configuration has set before is not lost.
  (let ((set (and (boundp (car pair)) (not (eq (indirect-variable (car pair)) (cdr pair)))
                  (default-value (car pair)))))
    (when set (set-default (cdr pair) set))
    (defvaralias (car pair) (cdr pair))))

(provide 'magent-compat)
;;; magent-compat.el ends here
