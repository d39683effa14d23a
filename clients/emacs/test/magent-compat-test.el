;;; magent-compat-test.el --- Code that was written for magent  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: MIT OR Apache-2.0

;;; Commentary:

;; The examples people learnt magent from, as they are in their
;; configurations, run against a server.  What an example leaves open (a
;; session, a file, a package that is not part of Emacs) a test provides
;; around it.

;;; Code:

(require 'rethread-test-setup)
(require 'magent-compat)

(defmacro magent-test (&rest body)
  "Run BODY with `session' bound to a new session, and no current one."
  (declare (indent 0) (debug t))
  `(rethread-test-afresh
     (let ((session (magent-session-create)))
       (ignore session)
       ,@body)))

(defmacro magent-test-redefining (function &rest body)
  "Run BODY, which may redefine FUNCTION, and restore it."
  (declare (indent 1) (debug t))
  `(let ((before (symbol-function ,function)))
     (unwind-protect (progn ,@body)
       (fset ,function before))))

(defun magent-test-elsewhere (operation &rest arguments)
  "Do OPERATION with ARGUMENTS in a temporary folder instead of /path or /custom."
  (let* ((inhibit-file-name-handlers
          (cons 'magent-test-elsewhere
                (and (eq inhibit-file-name-operation operation)
                     inhibit-file-name-handlers)))
         (inhibit-file-name-operation operation))
    (apply operation
           (if (memq operation '(expand-file-name file-name-directory abbreviate-file-name
                                                  file-name-nondirectory))
               arguments
             (mapcar (lambda (argument)
                       (if (and (stringp argument)
                                (string-match-p "\\`/\\(path/to\\|custom/path\\)/" argument))
                           (concat (directory-file-name user-emacs-directory) argument)
                         argument))
                     arguments)))))

(defmacro magent-test-with-paths (&rest body)
  "Run BODY with /path/to and /custom/path standing for temporary folders."
  (declare (indent 0) (debug t))
  `(let ((file-name-handler-alist
          (cons '("\\`/\\(path/to\\|custom/path\\)/" . magent-test-elsewhere)
                file-name-handler-alist)))
     ,@body))

;;; The structure

(ert-deftest magent-the-struct-may-have-been-defined-before ()
  (eval '(cl-defstruct magent-session
           messages        ; List of message objects (newest first)
           max-history     ; Maximum messages to retain
           id              ; Unique session identifier
           agent)          ; Currently assigned agent info
        t)
  (load "magent-compat" nil t)
  (magent-test
    (should (null (magent-session-messages session)))
    (should (= (magent-session-max-history session) 100))
    (should (null (magent-session-id session)))
    (should (null (magent-session-agent session)))
    (magent-session-add-message session 'user "Hello")
    (should (equal (funcall (byte-compile '(lambda (s) (magent-session-messages s))) session)
                   '(((role . user) (content . "Hello")))))
    (funcall (byte-compile '(lambda (s) (setf (magent-session-max-history s) 7))) session)
    (should (= (magent-session-max-history session) 7))))

(ert-deftest magent-messages-have-their-format ()
  (magent-test
    (let ((messages
           '(;; User message
             ((role . user)
              (content . "Please read main.el"))

             ;; Assistant message with text
             ((role . assistant)
              (content . "I'll read that file for you."))

             ;; Assistant message with tool use
             ((role . assistant)
              (content . (((type . "text")
                           (text . "I'll read that file."))
                          ((type . "tool_use")
                           (id . "call_123")
                           (name . "read_file")
                           (input . ((path . "main.el")))))))

             ;; Tool result
             ((role . tool)
              (content . ((type . "tool_result")
                          (tool_use_id . "call_123")
                          (content . ";;; main.el contents...")))))))
      (dolist (message messages)
        (magent-session-add-message session (cdr (assq 'role message))
                                    (cdr (assq 'content message))))
      (should (equal (magent-session-get-messages session) messages))
      (should (equal (magent-session-messages session) (reverse messages))))))

;;; Life of a session

(ert-deftest magent-a-session-is-made-when-first-needed ()
  (magent-test
    (magent-test-redefining 'magent-session-get
      (should (null magent--current-session))
      (defun magent-session-get ()
        "Get the current session, creating one if needed."
        (unless magent--current-session
          (setq magent--current-session (magent-session-create)))
        magent--current-session)
      (let ((made (magent-session-get)))
        (should (eq made magent--current-session))
        (should (eq made (rethread-session-get)))))
    (let ((made (magent-session-get)))
      (should (null (magent-session-messages made)))
      (should (= (magent-session-max-history made) magent-max-history 100))
      (should (null (magent-session-id made)))
      (should (null (magent-session-get-agent made))))))

(ert-deftest magent-a-prompt-assigns-the-default-agent ()
  (magent-test
    (magent-agent-process "prompt")  ; Uses default agent
    (rethread-test-settled (magent-session-get))
    (should (equal (magent-agent-info-name (magent-session-get-agent (magent-session-get)))
                   "build"))
    (should (equal (car (magent-session-get-messages (magent-session-get)))
                   '((role . user) (content . "prompt"))))
    (should (eq (cdr (assq 'role (car (magent-session-messages (magent-session-get)))))
                'assistant))
    (cl-letf (((symbol-function 'completing-read) (lambda (&rest _) "plan")))
      (call-interactively #'magent-select-agent))  ; Interactive selection
    (should (equal (magent-agent-info-name (magent-session-get-agent (magent-session-get)))
                   "plan"))
    ;; The server knows it, so it is kept for the next one to open the session.
    (should (equal (alist-get 'agent (alist-get 'session (rethread-session-request
                                                          (magent-session-get) "GET" "")))
                   "plan"))))

(ert-deftest magent-messages-accumulate ()
  (magent-test
    ;; User message
    (magent-session-add-message session 'user "Hello")

    ;; Assistant message
    (magent-session-add-message session 'assistant "Hi there!")

    ;; Tool result
    (magent-session-add-tool-result session "call_123" "File contents...")
    (should (equal (magent-session-get-messages session)
                   '(((role . user) (content . "Hello"))
                     ((role . assistant) (content . "Hi there!"))
                     ((role . tool) (content . ((type . "tool_result")
                                                (tool_use_id . "call_123")
                                                (content . "File contents...")))))))))

(ert-deftest magent-a-session-is-saved-and-loaded ()
  (magent-test
    (magent-session-add-message session 'user "Hello")
    (let ((file
           ;; Save current session
           (magent-session-save session)
           ;; → ~/.emacs.d/magent-sessions/session-20250221-143015.json
           ))
      (should (string-match-p "/magent-sessions/session-[0-9]\\{8\\}-[0-9]\\{6\\}\\.json\\'" file))
      (should (string-prefix-p (expand-file-name user-emacs-directory) file))
      (should (= (file-modes file) #o600)))
    (magent-test-with-paths
      (magent-session-save session "/path/to/session.json")
      (let ((loaded
             ;; Load saved session
             (magent-session-load "/path/to/session.json")))
        (should (equal (magent-session-get-messages loaded)
                       '(((role . user) (content . "Hello")))))))))

(ert-deftest magent-a-session-is-reset ()
  (magent-test
    (magent-session-add-message (magent-session-get) 'user "Hello")
    (call-interactively 'magent-clear-session) ; M-x magent-clear-session
    (should (null (magent-session-messages (magent-session-get))))
    (magent-session-add-message (magent-session-get) 'user "Hello again")
    ;; Programmatic
    (magent-session-reset)
    (should (null (magent-session-messages (magent-session-get))))))

(ert-deftest magent-a-reset-session-has-no-id-and-no-agent-and-overwrites-no-file ()
  (magent-test
    (magent-session-add-message (magent-session-get) 'user "Hello")
    (setf (magent-session-id (magent-session-get)) "project-foo")
    (setf (magent-session-agent (magent-session-get)) (magent-agent-registry-get "explore"))
    (let ((file (magent-session-save (magent-session-get))))
      (should (string-suffix-p "/project-foo.json" file))
      (magent-session-reset)
      (should (null (magent-session-id (magent-session-get))))
      (should (null (magent-session-agent (magent-session-get))))
      (magent-session-add-message (magent-session-get) 'user "Something else")
      (should-not (equal file (magent-session-save (magent-session-get))))
      (should (equal (magent-session-get-messages (magent-session-load file))
                     '(((role . user) (content . "Hello"))))))))

;;; Operations

(ert-deftest magent-sessions-are-made-automatically-or-by-hand ()
  (magent-test
    (let ((session (magent-session-get)))
      ;; Use session
      (should (magent-session-p session)))
    (let ((session (magent-session-create
                    :max-history 50
                    :agent (magent-agent-registry-get "explore"))))
      ;; Use session
      (should (= (magent-session-max-history session) 50))
      (should (equal (magent-agent-info-name (magent-session-get-agent session)) "explore"))
      (magent-session-add-message session 'user "Hello")
      (should (equal (alist-get 'agent (alist-get 'session
                                                  (rethread-session-request session "GET" "")))
                     "explore")))))

(ert-deftest magent-messages-are-added-and-read ()
  (magent-test
    (magent-session-add-message session 'user "Find all .el files")
    (magent-session-add-message session 'assistant
      "I'll search for .el files using glob.")
    (magent-session-add-tool-result session "call_123"
      "file1.el\nfile2.el\nfile3.el")
    (let ((all
           (magent-session-get-messages session)
           ;; Returns messages oldest to newest
           )
          (count (length (magent-session-messages session)))
          (latest (car (magent-session-messages session))))
      (should (= count 3))
      (should (equal (cdr (assq 'content (car all))) "Find all .el files"))
      (should (equal latest (car (last all))))
      (should (eq (cdr (assq 'role latest)) 'tool)))))

(ert-deftest magent-agents-are-read-and-set ()
  (magent-test
    (should (null (magent-session-get-agent session)))
    ;; Returns magent-agent-info or nil
    (magent-session-set-agent session
      (magent-agent-registry-get "plan"))
    (should (equal (magent-agent-info-name (magent-session-get-agent session)) "plan"))
    (should (null (magent-agent-registry-get "nobody")))
    (let ((said nil))
      (cl-letf (((symbol-function 'message)
                 (lambda (format &rest arguments)
                   (when format (setq said (apply #'format format arguments))))))
        (setq magent--current-session session)
        (call-interactively 'magent-show-current-agent)) ; M-x magent-show-current-agent
      (should (string-match-p "the agent here is plan" said)))))

(ert-deftest magent-a-session-has-an-id-a-size-and-a-summary ()
  (magent-test
    (let ((id
           (magent-session-get-id session)
           ;; Returns existing ID or generates new one
           ;; Format: "session-YYYYMMDD-HHMMSS"
           ))
      (should (string-match-p "\\`session-[0-9]\\{8\\}-[0-9]\\{6\\}\\'" id))
      (should (equal id (magent-session-get-id session))))
    (magent-session-add-message session 'user (make-string 400 ?x))
    (should (= 100
               (magent-session-get-context-size session)
               ;; Returns approximate token count (~4 chars per token)
               ))
    (magent-session-add-message session 'assistant "Yes.")
    (let ((summary
           (magent-session-summarize session)
           ;; Returns text summary of recent messages
           ))
      (should (string-match-p "\\`Session Summary:\n\n\\[USER\\] xxx" summary))
      (should (string-match-p "\n\\[ASSISTANT\\] Yes\\.\\'" summary)))))

;;; History

(ert-deftest magent-the-definition-of-add-message-works-on-these-sessions ()
  (magent-test
    (magent-test-redefining 'magent-session-add-message
      (defun magent-session-add-message (session role content)
        "Add a message to SESSION."
        (let ((messages (magent-session-messages session)))
          (push (list (cons 'role role)
                      (cons 'content content))
                messages)
          ;; Trim to max history
          (when (> (length messages) (magent-session-max-history session))
            (setf messages (butlast messages
                            (- (length messages)
                               (magent-session-max-history session)))))
          (setf (magent-session-messages session) messages))
        session)
      (setf (magent-session-max-history session) 3)
      (dotimes (number 5)
        (should (eq session (magent-session-add-message session 'user (format "%d" number)))))
      (should (equal (mapcar (lambda (message) (cdr (assq 'content message)))
                             (magent-session-messages session))
                     '("4" "3" "2")))
      ;; The log has all of it, once.
      (should (= 5 (alist-get 'messages (alist-get 'session (rethread-session-request
                                                             session "GET" ""))))))))

(ert-deftest magent-the-oldest-messages-are-trimmed-on-every-add ()
  (let ((magent-max-history 2))
    (magent-test
      (dolist (text '("one" "two" "three"))
        (magent-session-add-message session 'user text)
        (should (<= (length (magent-session-messages session)) 2)))
      (should (equal (mapcar (lambda (message) (cdr (assq 'content message)))
                             (magent-session-get-messages session))
                     '("two" "three"))))))

(ert-deftest magent-the-history-size-is-configured ()
  (let ((before magent-max-history))
    (unwind-protect
        (progn
          (setq magent-max-history 200)  ; Default: 100
          (magent-test
            (should (= (magent-session-max-history session) 200))))
      (setq magent-max-history before)))
  (let ((session (magent-session-create :max-history 50)))
    ;; This session limited to 50 messages
    (should (= (magent-session-max-history session) 50)))
  (magent-test
    (magent-session-add-message session 'user "Hello")
    (setf (magent-session-max-history session) most-positive-fixnum)
    (should (= (magent-session-max-history session) most-positive-fixnum))
    (magent-session-add-message session 'user "Hello again")
    (should (= 2 (length (magent-session-messages session))))))

(ert-deftest magent-the-size-is-watched-and-a-session-compacted ()
  (magent-test
    (magent-session-add-message session 'user "Where is the deploy key?")
    (magent-session-add-message session 'assistant "In the vault.")
    (let ((size (magent-session-get-context-size session)))
      (message "Approximate tokens: %d" size))
    (setq magent--current-session session)
    ;; Use compaction agent to summarize
    (magent-agent-process-with-agent "Summarize this conversation"
                                     "compaction")
    (rethread-test-settled session)
    (should (= 4 (length (magent-session-messages session))))
    (should (equal (magent-agent-info-name (magent-session-get-agent session)) "build"))
    (should (string-match-p "^compaction: " (rethread-test-chat session)))))

;;; Files

(ert-deftest magent-the-default-directory-is-where-it-was ()
  (should (equal (expand-file-name magent-sessions-directory)
                 (file-name-as-directory
                  (expand-file-name "magent-sessions" user-emacs-directory))))
  (should (equal (eval (car (get 'rethread-sessions-directory 'standard-value)) t)
                 (locate-user-emacs-file "magent-sessions/"))))

(ert-deftest magent-a-saved-session-is-the-json-of-before ()
  (magent-test
    (setf (magent-session-id session) "session-20250221-143015")
    (magent-session-add-message session 'user "Hello")
    (magent-session-add-message session 'assistant "Hi there!")
    (let* ((file (magent-session-save session))
           (saved (with-temp-buffer
                    (insert-file-contents file)
                    (rethread-http-decode (buffer-string)))))
      (should (equal (file-name-nondirectory file) "session-20250221-143015.json"))
      (should (equal (mapcar #'car saved) '(id messages timestamp)))
      (should (equal (alist-get 'id saved) "session-20250221-143015"))
      (should (equal (alist-get 'messages saved)
                     '(((role . "user") (content . "Hello"))
                       ((role . "assistant") (content . "Hi there!")))))
      (should (string-match-p
               "\\`[0-9]\\{4\\}-[0-9][0-9]-[0-9][0-9]T[0-9][0-9]:[0-9][0-9]:[0-9][0-9][-+][0-9]\\{4\\}\\'"
               (alist-get 'timestamp saved)))))
  (magent-test-with-paths
    (with-temp-buffer
      (insert "{
  \"id\": \"session-20250221-143015\",
  \"messages\": [
    {
      \"role\": \"user\",
      \"content\": \"Hello\"
    },
    {
      \"role\": \"assistant\",
      \"content\": \"Hi there!\"
    }
  ],
  \"timestamp\": \"2025-02-21T14:30:15-0800\"
}")
      (make-directory (concat (directory-file-name user-emacs-directory) "/path/to") t)
      (write-region nil nil "/path/to/session.json" nil 'silent))
    (magent-test
      (let ((session (magent-session-load "/path/to/session.json")))
        (setq magent--current-session session))
      (should (equal (magent-session-get-id (magent-session-get)) "session-20250221-143015"))
      (should (equal (magent-session-get-messages magent--current-session)
                     '(((role . user) (content . "Hello"))
                       ((role . assistant) (content . "Hi there!"))))))))

(ert-deftest magent-a-session-is-saved-where-one-likes-and-listed ()
  (magent-test
    (magent-session-add-message session 'user "Hello")
    (let ((file
           (magent-session-save session)
           ;; Returns saved filepath
           ))
      (should (file-exists-p file))
      (should (member file
                      (magent-session-list-saved)
                      ;; Returns list of .json files in sessions directory
                      )))
    (magent-test-with-paths
      ;; Save to specific location
      (should (equal (magent-session-save session "/custom/path/session.json")
                     "/custom/path/session.json")))
    (should (file-exists-p (concat (directory-file-name user-emacs-directory)
                                   "/custom/path/session.json")))))

;;; Several sessions, and what was to come

(ert-deftest magent-what-was-to-come-is-there ()
  (eval '(progn
           (defvar magent--current-session nil
             "The current active session.")
           ;; Per-buffer sessions
           (defvar-local magent-buffer-session nil)

           ;; Per-project sessions
           (defvar magent-project-sessions (make-hash-table :test 'equal)))
        t)
  (magent-test
    (magent-session-add-message (magent-session-get) 'user "Something to list")
    (save-window-excursion
      ;; Session manager UI
      (magent-session-manager)  ; Browse/switch sessions
      (should (derived-mode-p 'tabulated-list-mode))
      (should (string-match-p "Something to list" (buffer-string)))))
  (with-temp-buffer
    (setq magent-buffer-session (magent-session-create :id "mine"))
    (should (equal (magent-session-get-id (magent-session-get)) "mine")))
  (should (hash-table-p magent-project-sessions)))

(ert-deftest magent-a-session-is-shown-as-it-was ()
  (magent-test
    (setq magent--current-session session)
    (magent-session-add-message session 'user "Find all .el files")
    (magent-session-add-message session 'assistant
      '(((type . "text") (text . "I'll search for .el files using glob."))
        ((type . "tool_use") (id . "call_123") (name . "glob")
         (input . ((pattern . "*.el"))))))
    (magent-session-add-tool-result session "call_123" "file1.el\nfile2.el\nfile3.el")
    (magent-session-add-message session 'assistant "I found 3 Emacs Lisp files.")
    (save-window-excursion
      (call-interactively 'magent-show-session)) ; M-x magent-show-session
    (with-current-buffer "*rethread summary*"
      (should (equal (buffer-string)
                     "Session Summary:

\[USER] Find all .el files
\[ASSISTANT] I'll search for .el files using glob.
\[TOOL] tool_use: glob
\[TOOL] tool_result: file1.el\\nfile2.el\\nfile3.el
\[ASSISTANT] I found 3 Emacs Lisp files.
")))
    (should (equal
             (let ((messages (magent-session-get-messages session)))
               (cl-loop for msg in messages
                        for role = (cdr (assq 'role msg))
                        count (eq role 'user) into users
                        count (eq role 'assistant) into assistants
                        count (eq role 'tool) into tools
                        finally return (list :user users
                                            :assistant assistants
                                            :tool tools)))
             '(:user 1 :assistant 2 :tool 1)))
    (should (= 1
               ;; Count tool calls
               (cl-loop for msg in (magent-session-get-messages session)
                        when (eq (cdr (assq 'role msg)) 'tool)
                        count t)))))

;;; When something is wrong

(ert-deftest magent-troubleshooting-works ()
  (magent-test
    ;; Check if session exists
    magent--current-session

    ;; Verify messages
    (magent-session-messages (magent-session-get))
    (should (magent-session-p magent--current-session))

    ;; Check agent
    (magent-session-get-agent (magent-session-get))

    ;; Manually assign
    (magent-session-set-agent (magent-session-get)
      (magent-agent-registry-get "build"))
    (should (equal (magent-agent-info-name (magent-session-get-agent (magent-session-get)))
                   "build"))

    ;; Check directory exists and is writable
    (file-writable-p (expand-file-name "magent-sessions" user-emacs-directory))

    ;; Create directory
    (make-directory (expand-file-name "magent-sessions" user-emacs-directory) t)
    (should (file-writable-p (expand-file-name "magent-sessions" user-emacs-directory)))
    (let ((filepath (magent-session-save (magent-session-get))))
      ;; Verify file exists
      (should (file-exists-p filepath)))))

(ert-deftest magent-a-slow-session-is-made-lighter ()
  (let ((before magent-max-history))
    (unwind-protect
        (magent-test
          ;; Reduce max history
          (setq magent-max-history 50)
          (should (= 50 (magent-session-max-history (magent-session-get))))

          ;; Use summarization (future)
          (magent-session-add-message (magent-session-get) 'user "What did we decide?")
          (magent-session-add-message (magent-session-get) 'assistant "To use a token bucket.")
          (let ((uuid (rethread-session--uuid (magent-session-get))))
            (cl-letf (((symbol-function 'y-or-n-p) (lambda (&rest _) t)))
              (magent-compact-session))
            (rethread-test-wait (not (equal uuid (rethread-session--uuid (magent-session-get))))))
          ;; Clear and restart session
          (call-interactively 'magent-clear-session) ; M-x magent-clear-session
          (should (null (magent-session-messages (magent-session-get)))))
      (setq magent-max-history before))))

;;; Advanced use

(ert-deftest magent-a-session-for-each-project ()
  (eval '(progn
           (defvar-local my-project-session nil)

           (defun my-get-project-session ()
             "Get or create session for current project."
             (or my-project-session
                 (setq my-project-session
                       (magent-session-create
                        :id (concat "project-" (projectile-project-name)))))))
        t)
  (cl-letf (((symbol-function 'projectile-project-name) (lambda () "garden")))
    (with-temp-buffer
      (let ((session (funcall 'my-get-project-session)))
        (should (equal (magent-session-get-id session) "project-garden"))
        (should (eq session (funcall 'my-get-project-session)))
        (magent-session-add-message session 'user "Hello")
        (should (string-prefix-p "project-garden"
                                 (alist-get 'name (alist-get 'session
                                                             (rethread-session-request
                                                              session "GET" "")))))))))

(ert-deftest magent-a-session-with-files-in-it ()
  (eval '(defun my-create-contextual-session (files)
           "Create session with FILES pre-loaded as context."
           (let ((session (magent-session-create)))
             (dolist (file files)
               (magent-session-add-message session 'user
                 (format "File %s:\n%s" file (magent-tools--read-file file))))
             session))
        t)
  (let ((file (make-temp-file (expand-file-name "context" user-emacs-directory) nil nil "(ok)\n")))
    (should (equal (magent-session-get-messages (funcall 'my-create-contextual-session (list file)))
                   `(((role . user) (content . ,(format "File %s:\n(ok)\n" file))))))))

(ert-deftest magent-sessions-are-analysed ()
  (eval '(progn
           (defun my-session-text (session)
             "Extract plain text from SESSION messages."
             (mapconcat
              (lambda (msg)
                (let ((role (cdr (assq 'role msg)))
                      (content (cdr (assq 'content msg))))
                  (format "[%s] %s" role content)))
              (magent-session-get-messages session)
              "\n\n"))

           (defun my-session-tools-used (session)
             "List all tools used in SESSION."
             (cl-loop for msg in (magent-session-get-messages session)
                      when (eq (cdr (assq 'role msg)) 'assistant)
                      append (cl-loop for block in (cdr (assq 'content msg))
                                     when (equal (cdr (assq 'type block)) "tool_use")
                                     collect (cdr (assq 'name block))))))
        t)
  (magent-test
    (magent-session-add-message session 'user "Hello")
    (magent-session-add-message session 'assistant "Hi there!")
    (should (equal (funcall 'my-session-text session) "[user] Hello\n\n[assistant] Hi there!"))
    (magent-session-add-message session 'assistant
      '(((type . "tool_use") (id . "c1") (name . "glob") (input . ()))
        ((type . "tool_use") (id . "c2") (name . "grep") (input . ((pattern . "x"))))))
    (should (equal (funcall 'my-session-tools-used session) '("glob" "grep")))))

(ert-deftest magent-the-keys-are-where-they-were ()
  (let ((rethread-mode nil))
    (unwind-protect
        (progn
          (magent-mode 1)
          (dolist (pair '(("C-c o c" . magent-clear-session)
                          ("C-c o s" . magent-show-session)
                          ("C-c o i" . magent-show-current-agent)
                          ("C-c o A" . magent-select-agent)
                          ("C-c o p" . magent-prompt)))
            (should (eq (indirect-function (key-binding (kbd (car pair))))
                        (indirect-function (cdr pair))))
            (should (commandp (cdr pair)))))
      (magent-mode -1))))

(ert-deftest magent-every-function-of-the-reference-is-there ()
  (dolist (name '(magent-session-create magent-session-get magent-session-reset
                  magent-session-add-message magent-session-add-tool-result
                  magent-session-get-messages magent-session-get-agent
                  magent-session-set-agent magent-session-get-id
                  magent-session-get-context-size magent-session-summarize
                  magent-session-save magent-session-load magent-session-list-saved))
    (should (fboundp name))
    (should (documentation name))))

(provide 'magent-compat-test)
;;; magent-compat-test.el ends here
