;;; rethread-session-test.el --- Sessions, files and context  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: MIT OR Apache-2.0

;;; Commentary:

;; What is promised about sessions beyond the names of magent.

;;; Code:

(require 'rethread-test-setup)

(defun rethread-test-stored (session)
  "Return how many messages the server has of SESSION."
  (alist-get 'messages (alist-get 'session (rethread-session-request session "GET" ""))))

(ert-deftest rethread-a-session-nobody-spoke-in-is-not-on-the-server ()
  (let ((before (length (alist-get 'sessions (rethread-http-request "GET" "/v1/sessions?limit=1000"))))
        (session (rethread-session-create :id "quiet")))
    (should (null (rethread-session-messages session)))
    (should (= before (length (alist-get 'sessions
                                         (rethread-http-request "GET" "/v1/sessions?limit=1000")))))))

(ert-deftest rethread-every-character-survives ()
  (dolist (native (if (fboundp 'json-serialize) '(t nil) '(nil)))
    (let ((rethread-http--native native)
          (session (rethread-session-create))
          (texts (list "" "日本語と漢字" "👩‍🚀 emoji 🎉" "a\nb\r\n\tc" "nul \0 here" "\"quoted\" \\ back"
                       "\u2028\u2029 \ufeff" (string #x10ffff) "%s %d %%" "é́")))
      (dolist (text (cdr texts))
        (rethread-session-add-message session 'user text))
      (rethread-session--forget session)
      (should (equal (mapcar #'cdar (mapcar #'cdr (rethread-session-get-messages session)))
                     (cdr texts))))))

(ert-deftest rethread-bytes-that-are-not-text-become-replacement-characters ()
  (let ((session (rethread-session-create)))
    (rethread-session-add-message session 'user (concat "a" (string #x3fff80) "b" (string #xd800)))
    (rethread-session-add-message session 'user (propertize "\351" 'face 'bold))
    (rethread-session-add-message session 'user (encode-coding-string "é" 'utf-8))
    (should (equal (mapcar (lambda (message) (alist-get 'content message))
                           (rethread-session-get-messages session))
                   (list "a\ufffdb\ufffd" "\ufffd" "é")))))

(ert-deftest rethread-a-message-of-a-megabyte-is-kept ()
  (let ((session (rethread-session-create))
        (text (apply #'concat (make-list 20000 "fünfzig Zeichen, die nicht alle einzelne Bytes sind\n"))))
    (rethread-session-add-message session 'user text)
    (rethread-session--forget session)
    (should (equal (alist-get 'content (car (rethread-session-messages session))) text))))

(ert-deftest rethread-a-long-session-is-read-from-its-end ()
  (let ((session (rethread-session-create :max-history 5)))
    (rethread-session--ensure session)
    (rethread-session--send session (cl-loop for number below 150
                                             collect `((role . "user")
                                                       (content . ,(number-to-string number)))))
    (should (equal (mapcar (lambda (message) (alist-get 'content message))
                           (rethread-session-get-messages session))
                   '("145" "146" "147" "148" "149")))
    (should (> (rethread-session--first session) 100))
    ;; More of it is fetched when more is to be shown.
    (setf (rethread-session-max-history session) most-positive-fixnum)
    (should (= 150 (length (rethread-session-messages session))))
    (should (= 0 (rethread-session--first session)))))

(ert-deftest rethread-two-handles-see-the-same-session ()
  (let* ((here (rethread-session-create))
         (there nil))
    (rethread-session-add-message here 'user "one")
    (setq there (rethread-session-open
                 (alist-get 'session (rethread-session-request here "GET" ""))))
    (should (= 1 (length (rethread-session-messages there))))
    (rethread-session-add-message there 'assistant "two")
    (should (equal (rethread-session-messages here) (rethread-session-messages there)))
    (should (= 2 (length (rethread-session-messages here))))))

(ert-deftest rethread-a-clear-can-be-undone-and-nothing-is-lost ()
  (rethread-test-afresh
    (let ((session (rethread-session-get)))
      (dolist (text '("one" "two"))
        (rethread-session-add-message session 'user text))
      (rethread-session-reset)
      (let ((fresh (rethread-session-get)))
        (should-not (eq fresh session))
        (should (null (rethread-session-messages fresh)))
        (rethread-session-add-message fresh 'user "three")
        (should (= 1 (rethread-test-stored fresh)))
        (should (= 2 (rethread-test-stored session)))
        (rethread-undo)
        (should (eq session (rethread-session-get)))
        (should (= 1 (rethread-test-stored fresh))))
      (should (equal (funcall (rethread-test-said 'user) (rethread-session-get-messages session))
                     '("one" "two"))))))

(ert-deftest rethread-a-cleared-session-of-a-project-comes-back-after-a-restart ()
  (rethread-test-afresh
    (let* ((key "project:/tmp/cleared")
           (session (rethread-session--of-key key)))
      (setq rethread--current-session session)
      (rethread-session-add-message session 'user "one")
      (rethread-session-add-message (rethread-session-reset) 'user "two")
      (should (equal (funcall (rethread-test-said 'user)
                              (rethread-session-get-messages (rethread-session--of-key key)))
                     '("two")))
      (rethread-undo)
      (should (equal (funcall (rethread-test-said 'user)
                              (rethread-session-get-messages (rethread-session--of-key key)))
                     '("one"))))))

(ert-deftest rethread-setting-messages-appends-new-ones-and-replaces-different-ones ()
  (let ((session (rethread-session-create))
        (one '((role . user) (content . "one")))
        (two '((role . assistant) (content . "two")))
        (other '((role . user) (content . "other"))))
    (setf (rethread-session-messages session) (list one))
    (push two (rethread-session-messages session))
    (should (equal (rethread-session-messages session) (list two one)))
    (should (= 2 (rethread-test-stored session)))
    (setf (rethread-session-messages session) (list two one))
    (should (= 2 (rethread-test-stored session)))
    (pop (rethread-session-messages session))
    (should (equal (rethread-session-messages session) (list one)))
    (setf (rethread-session-messages session) (list other))
    (should (equal (rethread-session-messages session) (list other)))
    (setf (rethread-session-messages session) nil)
    (should (null (rethread-session-messages session)))))

(ert-deftest rethread-a-role-nobody-has-is-refused ()
  (should (string-match-p "ROLE is user, assistant, tool or system"
                          (rethread-test-error 'rethread-error
                                               (lambda ()
                                                 (rethread-session-add-message
                                                  (rethread-session-create) 'robot "x"))))))

(ert-deftest rethread-an-agent-nobody-knows-is-refused-with-those-there-are ()
  (should (string-match-p "there is no agent `biuld'; there are build, plan, explore"
                          (rethread-test-error 'rethread-error
                                               (lambda ()
                                                 (rethread-session-create :agent "biuld"))))))

;;; Buffers and projects

(ert-deftest rethread-each-buffer-can-have-a-session-that-is-found-again ()
  (let ((file (expand-file-name "thoughts.txt" user-emacs-directory)) (uuid nil))
    (with-temp-buffer
      (setq buffer-file-name file)
      (set-buffer-modified-p nil)
      (let ((rethread-session-scope 'buffer))
        (rethread-session-add-message (rethread-session-get) 'user "about this buffer")
        (setq uuid (rethread-session--uuid (rethread-session-get))))
      (set-buffer-modified-p nil)
      (setq buffer-file-name nil))
    (with-temp-buffer
      (rename-buffer "another buffer" t)
      (rethread-use-buffer-session)
      (should (null (rethread-session-messages (rethread-session-get)))))
    ;; Another buffer of the same file, in another Emacs perhaps.
    (with-temp-buffer
      (setq buffer-file-name file)
      (rethread-use-buffer-session)
      (should (equal uuid (rethread-session--uuid (rethread-session-get))))
      (should (= 1 (length (rethread-session-messages (rethread-session-get)))))
      (set-buffer-modified-p nil)
      (setq buffer-file-name nil))))

(ert-deftest rethread-each-project-can-have-a-session-that-is-found-again ()
  (let* ((root (file-name-as-directory (make-temp-file "project" t)))
         (rethread-session-scope 'project)
         (uuid nil))
    (cl-letf (((symbol-function 'rethread-project-root) (lambda () root)))
      (rethread-test-afresh
        (rethread-session-add-message (rethread-session-get) 'user "about this project")
        (setq uuid (rethread-session--uuid (rethread-session-get)))
        (with-temp-buffer
          (should (equal uuid (rethread-session--uuid (rethread-session-get))))))
      (rethread-test-afresh
        (should (equal uuid (rethread-session--uuid (rethread-session-get))))
        (should (equal (alist-get 'keys (alist-get 'session (rethread-session-request
                                                             (rethread-session-get) "GET" "")))
                       (list (concat "project:" (directory-file-name root)))))))
    (rethread-test-afresh
      (cl-letf (((symbol-function 'rethread-project-root) (lambda () nil)))
        (should (string-match-p "belongs to no project"
                                (rethread-test-error 'user-error
                                                     #'rethread-use-project-session)))))
    (delete-directory root t)))

(ert-deftest rethread-the-project-is-the-one-emacs-knows ()
  (let ((project-find-functions (list (lambda (_) (cons 'transient user-emacs-directory)))))
    (should (equal (rethread-project-root) (expand-file-name user-emacs-directory))))
  (let ((project-find-functions nil))
    (should (null (rethread-project-root)))))

;;; Files

(ert-deftest rethread-a-saved-session-comes-back-the-same ()
  (let ((session (rethread-session-create :agent "plan" :id "Übung/1")) (file nil))
    (rethread-session-add-message session 'user "日本語 🎉\0")
    (rethread-session-add-message session 'assistant
                                  '(((type . "text") (text . "Let me look."))
                                    ((type . "tool_use") (id . "c1") (name . "glob") (input . ()))))
    (rethread-session-add-tool-result session "c1" "a\nb")
    (rethread-session-add-message session 'user "and?")
    (setq file (rethread-session-save session))
    (should (equal (file-name-nondirectory file) "Übung-1.json"))
    (should (equal (directory-files (file-name-directory file) nil "Übung-1")
                   '("Übung-1.json")))
    (let ((loaded (rethread-session-load file)))
      (should (equal (rethread-session-get-messages loaded) (rethread-session-get-messages session)))
      (should (equal (rethread-session-get-id loaded) "Übung/1"))
      (should (equal (rethread-agent-info-name (rethread-session-get-agent loaded)) "plan"))
      ;; It reaches the server with the first thing that is added, and whole.
      (should (null (rethread-session--uuid loaded)))
      (rethread-session-add-message loaded 'assistant "Two.")
      (should (= 5 (length (rethread-session-messages loaded))))
      (should (= 5 (rethread-test-stored loaded)))
      (should (= 4 (length (rethread-session-messages session)))))))

(ert-deftest rethread-a-file-that-was-written-newest-first-is-turned-around ()
  (let ((file (make-temp-file "session" nil ".json")))
    (cl-flet ((loaded (json) (with-temp-file file (insert json))
                      (mapcar (lambda (message) (alist-get 'role message))
                              (rethread-session-get-messages (rethread-session-load file)))))
      (should (equal (loaded "{\"messages\":[{\"role\":\"assistant\",\"content\":\"b\"},{\"role\":\"user\",\"content\":\"a\"}]}")
                     '(user assistant)))
      (should (equal (loaded "{\"messages\":[{\"role\":\"user\",\"content\":\"a\"},{\"role\":\"user\",\"content\":\"b\"}]}")
                     '(user user)))
      (should (equal (loaded "{\"messages\":[{\"role\":\"tool\",\"content\":{\"type\":\"tool_result\",\"tool_use_id\":\"c\",\"content\":\"x\"}},{\"role\":\"assistant\",\"content\":[{\"type\":\"tool_use\",\"id\":\"c\",\"name\":\"glob\",\"input\":null}]}]}")
                     '(assistant tool)))
      (should (equal (loaded "{\"id\":null,\"messages\":null}") '())))
    (delete-file file)))

(ert-deftest rethread-replies-are-saved-by-themselves-when-that-is-wanted ()
  (rethread-test-afresh
    (let ((rethread-auto-save t))
      (rethread-test-settled (rethread-agent-process "hello"))
      (let ((file (rethread-session--file (rethread-session-get))))
        (should (file-exists-p file))
        (should (equal (rethread-session-get-messages (rethread-session-load file))
                       (rethread-session-get-messages (rethread-session-get))))))))

;;; Context

(ert-deftest rethread-a-region-and-a-file-go-with-the-next-question-and-no-other ()
  (rethread-test-afresh
    (insert "first line\nthe second line\nthird line\n")
    (goto-char (point-min))
    (forward-line 1)
    (rethread-add-region (point) (line-end-position))
    (rethread-add-file "notes.md")
    (should (string-match-p "Ask build (with .*lines 2-2, .*notes.md): " (rethread--prompt-text)))
    (let ((session (rethread-test-settled (rethread-agent-process "what is this?"))))
      (let ((asked (alist-get 'content (car (rethread-session-get-messages session)))))
        (should (string-match-p "lines 2-2\\]\n```\nthe second line\n```\n\n" asked))
        (should (string-match-p "notes.md\\]\n```\nThe deploy key lives in the vault.\n```\n\nwhat is this\\?\\'"
                                asked)))
      ;; What a door puts before a question is not what the person said.
      (should (equal (alist-get 'first_message
                                (alist-get 'session (rethread-session-request session "GET" "")))
                     "what is this?"))
      (should (string-match-p "\\`Ask build: \\'" (rethread--prompt-text))))
    ;; A change of the session before asking is kept.
    (rethread-add-file "notes.md")
    (rethread-use-buffer-session)
    (should (string-match-p "with .*notes.md" (rethread--prompt-text)))
    (kill-local-variable 'rethread-buffer-session)
    (should (string-match-p "\\`Ask build: \\'" (rethread--prompt-text)))
    (erase-buffer)
    (insert (make-string (1+ rethread--context-max) ?x))
    (should (string-match-p "take a part of it"
                            (rethread-test-error 'user-error
                                                 (lambda () (rethread-add-region (point-min) (point-max))))))))

(provide 'rethread-session-test)
;;; rethread-session-test.el ends here
