;;; rethread-test-setup.el --- A real server for the tests  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: MIT OR Apache-2.0

;;; Commentary:

;; Every test talks to the real program, named by RETHREAD_TEST_PROGRAM, on a
;; free port.  Its store is the one RETHREAD_STORE names, its model the one
;; RETHREAD_MODEL names or else the offline one.

;;; Code:

(require 'ert)
(require 'cl-lib)
(require 'rethread)

(setq rethread-program (or (getenv "RETHREAD_TEST_PROGRAM")
                           (error "RETHREAD_TEST_PROGRAM names the program to test"))
      rethread-server-url nil
      rethread-server-directory default-directory
      user-emacs-directory (file-name-as-directory (make-temp-file "rethread-emacs-" t))
      rethread-sessions-directory (locate-user-emacs-file "magent-sessions/"))

(add-hook 'kill-emacs-hook (lambda () (delete-directory user-emacs-directory t)))

(defconst rethread-test-patience 60
  "Seconds anything may take before a test has failed.")

(defmacro rethread-test-wait (condition)
  "Wait until CONDITION holds, while Emacs does its other work."
  `(let ((deadline (+ (float-time) rethread-test-patience)))
     (while (and (not ,condition) (< (float-time) deadline))
       (accept-process-output nil 0.05))
     (unless ,condition
       (ert-fail (list "waited in vain for" ',condition)))))

(defun rethread-test-settled (session)
  "Wait until no reply is arriving in SESSION, and return it."
  (rethread-test-wait (not (rethread-session-busy-p session)))
  session)

(defmacro rethread-test-afresh (&rest body)
  "Run BODY in a buffer of its own, without a current session."
  (declare (indent 0) (debug t))
  `(let ((rethread--current-session nil)
         (rethread-project-sessions (make-hash-table :test 'equal)))
     (with-temp-buffer ,@body)))

(defun rethread-test-chat (session)
  "Return what the chat of SESSION shows."
  (with-current-buffer (rethread-chat-buffer session)
    (buffer-substring-no-properties (point-min) (point-max))))

(defun rethread-test-said (&rest roles)
  "Return a function that keeps the messages of ROLES."
  (lambda (messages)
    (cl-loop for message in messages
             when (memq (alist-get 'role message) roles) collect (alist-get 'content message))))

(defun rethread-test-error (symbol function)
  "Return the text of the error SYMBOL that FUNCTION signals."
  (error-message-string (should-error (funcall function) :type symbol)))

(provide 'rethread-test-setup)
;;; rethread-test-setup.el ends here
