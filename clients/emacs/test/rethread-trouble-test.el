;;; rethread-trouble-test.el --- What is said when something is wrong  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: MIT OR Apache-2.0

;;; Commentary:

;; Every error says what happened and what to do, and leaves the session whole.

;;; Code:

(require 'rethread-test-setup)

(defmacro rethread-test-other-server (arguments &rest body)
  "Run BODY with a server of its own, started with ARGUMENTS."
  (declare (indent 1) (debug t))
  `(let ((rethread-server--process nil)
         (rethread-http-own-address nil)
         (rethread-http--tokens nil)
         (rethread-server-arguments ,arguments))
     (unwind-protect (progn ,@body)
       (rethread-server-stop))))

(defun rethread-test-free-port ()
  "Return a port that nobody listens on."
  (let* ((server (make-network-process :name "port" :server t :host "127.0.0.1" :service t))
         (port (process-contact server :service)))
    (delete-process server)
    port))

(defun rethread-test-answering (text)
  "Return a server that answers everything with TEXT, and its address."
  (let ((server (make-network-process
                 :name "fake" :server t :host "127.0.0.1" :service t :coding 'binary :noquery t
                 :filter (lambda (client _)
                           (process-send-string client text)
                           (delete-process client)))))
    (cons server (format "http://127.0.0.1:%d" (process-contact server :service)))))

(ert-deftest rethread-a-server-is-started-where-none-runs ()
  (let* ((rethread-server--process nil)
         (rethread-server-url (format "http://127.0.0.1:%d" (rethread-test-free-port)))
         (session (rethread-session-create)))
    (unwind-protect
        (progn
          (rethread-session-add-message session 'user "hello")
          (should (process-live-p rethread-server--process))
          ;; Killed or not: the next request finds a server.
          (signal-process rethread-server--process 'KILL)
          (rethread-test-wait (not (process-live-p rethread-server--process)))
          (rethread-session-add-message session 'user "hello again")
          (should (= 2 (length (rethread-session-messages session)))))
      (rethread-server-stop))))

(ert-deftest rethread-a-program-that-is-not-installed-is-named-with-what-to-do ()
  (let ((rethread-program "no-such-rethread"))
    (let ((text (rethread-test-other-server nil
                  (rethread-test-error 'rethread-error
                                       (lambda () (rethread-agent-registry-list))))))
      (should (string-match-p "\\`Rethread: there is no program `no-such-rethread'" text))
      (should (string-match-p "cargo install" text))
      (should (string-match-p "`rethread-program'" text)))))

(ert-deftest rethread-a-server-that-does-not-start-says-why ()
  (let ((text (rethread-test-other-server '("--model" "nobody/nothing")
                (rethread-test-error 'rethread-error #'rethread-agent-registry-list))))
    (should (string-match-p "`rethread serve' did not start: .*nobody" text))))

(ert-deftest rethread-a-server-elsewhere-is-not-started-here ()
  (let* ((rethread-server-url "http://192.0.2.1:9")
         (rethread-http-start-function (lambda () (error "Started"))))
    (cl-letf (((symbol-function 'make-network-process)
               (lambda (&rest _) (signal 'file-error '("make client process failed" "No route")))))
      (let ((text (rethread-test-error 'rethread-unreachable #'rethread-agent-registry-list)))
        (should (string-match-p "nothing answers at http://192.0.2.1:9" text))
        (should (string-match-p "see that `rethread serve' runs there" text))))))

(ert-deftest rethread-a-server-of-another-program-is-recognised ()
  (pcase-dolist (`(,answer . ,said)
                 '(("HTTP/1.0 404 Not Found\r\nContent-Type: text/html\r\n\r\n<p>no</p>"
                    . "is not a rethread server")
                   ("SSH-2.0-OpenSSH\r\n\r\n" . "broke off before it answered")
                   ("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 50\r\n\r\n{"
                    . "broke off before it answered")
                   ("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 1\r\n\r\n{"
                    . "broke off before it answered")))
    (pcase-let* ((`(,server . ,rethread-server-url) (rethread-test-answering answer)))
      (should (string-match-p said (rethread-test-error 'rethread-error
                                                        #'rethread-agent-registry-list)))
      (delete-process server))))

(ert-deftest rethread-a-server-that-says-nothing-is-not-waited-for-forever ()
  (let* ((server (make-network-process :name "mute" :server t :host "127.0.0.1" :service t
                                       :noquery t))
         (rethread-server-url (format "http://127.0.0.1:%d" (process-contact server :service)))
         (rethread-timeout 0.3)
         (before (length (process-list))))
    (should (string-match-p "no answer from .* within 0.3 s"
                            (rethread-test-error 'rethread-unreachable
                                                 #'rethread-agent-registry-list)))
    (delete-process server)
    (rethread-test-wait (<= (length (process-list)) before))))

(ert-deftest rethread-a-quit-leaves-no-connection ()
  (let* ((server (make-network-process :name "mute" :server t :host "127.0.0.1" :service t
                                       :noquery t))
         (rethread-server-url (format "http://127.0.0.1:%d" (process-contact server :service)))
         (timer (run-at-time 0.2 nil (lambda () (signal 'quit nil)))))
    (should (eq 'quit (condition-case nil
                          (let ((throw-on-input nil)) (rethread-agent-registry-list))
                        (quit 'quit)
                        (rethread-error 'error))))
    (cancel-timer timer)
    (should-not (cl-find-if (lambda (process)
                              (string-match-p "\\`rethread\\(<[0-9]+>\\)?\\'" (process-name process)))
                            (process-list)))
    (delete-process server)))

;;; Tokens

(defun rethread-test-token (name)
  "Return a new token called NAME."
  (with-temp-buffer
    (should (eq 0 (call-process rethread-program nil '(t nil) nil "token" "create" name "--owner" "local")))
    (string-trim (buffer-string))))

(ert-deftest rethread-a-token-is-asked-for-when-it-is-wanted-and-never-shown ()
  (rethread-test-other-server '("--require-token")
    (let* ((token (rethread-test-token "emacs"))
           (asked 0)
           (given nil)
           (rethread-token-function (lambda (_host _port) (cl-incf asked) given))
           (session (rethread-session-create)))
      ;; There is none.
      (let ((text (rethread-test-error 'rethread-problem
                                       (lambda () (rethread-session-add-message session 'user "x")))))
        (should (string-match-p "asks for a token; make one with `rethread token create" text))
        (should (string-match-p "authinfo" text)))
      ;; There is a wrong one.
      (setq given (concat "rt_" (make-string 64 ?0)))
      (let ((text (rethread-test-error 'rethread-problem
                                       (lambda () (rethread-session-add-message session 'user "x")))))
        (should (string-match-p "does not know this token" text))
        (should-not (string-match-p "rt_0" text)))
      ;; The session is whole, and the right one is asked for next time.
      (should (null (rethread-session--uuid session)))
      (setq given token)
      (rethread-session-add-message session 'user "x")
      (should (= 1 (length (rethread-session-messages session))))
      (rethread-test-settled (rethread-agent-process "hello" nil nil session))
      (should (= 3 (length (rethread-session-messages session))))
      (should (= 3 asked))
      (dolist (process (process-list))
        (should-not (string-match-p (regexp-quote token) (format "%S" (process-command process)))))
      (should-not (string-match-p (regexp-quote token)
                                  (with-current-buffer (messages-buffer) (buffer-string)))))))

(ert-deftest rethread-a-token-comes-from-the-auth-sources ()
  (let* ((file (make-temp-file "authinfo" nil nil
                               "machine box.example.org port 8443 login rethread password rt_abc\n"))
         (auth-sources (list file)))
    (require 'auth-source)
    (auth-source-forget-all-cached)
    (should (equal "rt_abc" (rethread-token-from-auth-source "box.example.org" 8443)))
    (should (null (rethread-token-from-auth-source "other.example.org" 8443)))
    (delete-file file)))

(ert-deftest rethread-a-token-is-not-sent-where-others-can-read-it ()
  (let ((rethread-token-function (lambda (&rest _) "rt_secret")))
    (let ((text (rethread-test-error 'rethread-error
                                     (lambda ()
                                       (rethread-http--find-token "http://box.example.org:8000")))))
      (should (string-match-p "not sent over plain http" text))
      (should-not (string-match-p "rt_secret" text)))
    (should (equal "rt_secret" (rethread-http--find-token "https://box.example.org")))
    (let ((rethread-token-function (lambda (&rest _) "rt_x\r\nHost: evil")))
      (rethread-test-error 'rethread-error
                           (lambda () (rethread-http--find-token "https://box.example.org"))))
    (setq rethread-http--tokens nil)))

(ert-deftest rethread-an-invalid-address-is-reported ()
  (dolist (address '("box:8000" "ftp://box" "http://user:secret@box" "http://a b" "http://x/y" ""))
    (let ((rethread-server-url address))
      (should (string-match-p "correct `rethread-server-url'"
                              (rethread-test-error 'rethread-error
                                                   #'rethread-agent-registry-list))))))

;;; Files

(ert-deftest rethread-a-broken-file-is-refused-and-nothing-changes ()
  (rethread-test-afresh
    (rethread-session-add-message (rethread-session-get) 'user "hello")
    (let ((file (make-temp-file "broken" nil ".json"))
          (session rethread--current-session))
      (pcase-dolist (`(,text . ,said)
                     '(("" . "holds no session")
                       ("{\"id\": \"x\", \"messages\": [{\"role\": \"us" . "holds no session")
                       ("[1, 2]" . "it has no \"messages\"")
                       ("{\"id\": \"x\"}" . "it has no \"messages\"")
                       ("{\"messages\": \"x\"}" . "are not a list")
                       ("{\"messages\": [1]}" . "message 1 is none")
                       ("{\"messages\": [{\"role\":\"user\",\"content\":\"a\"},{\"role\":\"robot\"}]}"
                        . "message 2 is none")))
        (with-temp-file file (insert text))
        (let ((error-text (rethread-test-error 'rethread-error (lambda () (rethread-load file)))))
          (should (string-match-p said error-text))
          (should (string-match-p "nothing was loaded and nothing has changed" error-text))
          (should (string-match-p "rethread-load" error-text))))
      (delete-file file)
      (should (string-match-p "there is no such file"
                              (rethread-test-error 'rethread-error
                                                   (lambda () (rethread-session-load file)))))
      (should (eq session (rethread-session-get)))
      (should (= 1 (length (rethread-session-messages session)))))))

(ert-deftest rethread-a-place-that-cannot-be-written-is-named ()
  (rethread-test-afresh
    (rethread-session-add-message (rethread-session-get) 'user "hello")
    (let ((text (rethread-test-error 'rethread-error
                                     (lambda ()
                                       (rethread-session-save (rethread-session-get)
                                                              "/dev/null/x/session.json")))))
      (should (string-match-p "could not be written" text))
      (should (string-match-p "choose another place" text)))))

;;; What the server refuses

(ert-deftest rethread-a-session-that-was-deleted-says-so ()
  (let ((session (rethread-session-create)))
    (rethread-session-add-message session 'user "hello")
    (rethread-session-request session "DELETE" "")
    (dolist (act (list (lambda () (rethread-session-add-message session 'user "x"))
                       (lambda () (rethread-session-messages session))))
      (let ((text (rethread-test-error 'rethread-problem act)))
        (should (string-match-p "it may have been deleted; M-x rethread-list-sessions" text))))
    (rethread-agent-process "hello?" nil nil (let ((alive (rethread-session-create :agent "build")))
                                               (rethread-session-add-message alive 'user "x")
                                               (rethread-chat-buffer alive)
                                               (rethread-session-request alive "DELETE" "")
                                               (setq session alive)))
    (rethread-test-settled session)
    (should (string-match-p "it may have been deleted" (rethread-test-chat session)))))

(provide 'rethread-trouble-test)
;;; rethread-trouble-test.el ends here
