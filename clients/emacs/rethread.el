;;; rethread.el --- Sessions with AI agents that are never lost  -*- lexical-binding: t; -*-

;; Author: The Rethread authors
;; Maintainer: The Rethread authors
;; URL: https://github.com/rethread/rethread
;; Version: 0.1.0
;; Package-Requires: ((emacs "27.1"))
;; Keywords: tools, convenience
;; SPDX-License-Identifier: MIT OR Apache-2.0

;;; Commentary:

;; Ask an agent from any buffer, watch the reply arrive, and find every
;; conversation again: after a restart, from another Emacs, or from a
;; terminal with `rethread'.
;;
;;   (require 'rethread)
;;   (rethread-mode 1)
;;
;; Then C-c o p asks.  The program `rethread' must be installed; a server is
;; started when it is needed, and answers with an offline model until it
;; finds a key for another.
;;
;;   C-c o p  ask                  C-c o l  all sessions
;;   C-c o r  add the region       C-c o f  add a file
;;   C-c o c  clear                C-c o u  undo
;;   C-c o s  show what was said   C-c o k  compact
;;   C-c o i  the agent            C-c o A  switch to another agent
;;   C-c o b  a session for this buffer alone
;;   C-c o P  the session of this project
;;   C-g      stop a reply that is arriving
;;
;; The files, each with one job: rethread-http.el sends requests,
;; rethread-server.el starts a server, rethread-session.el has the sessions,
;; rethread-file.el saves and loads them, rethread-chat.el runs turns and
;; shows them, rethread-list.el lists sessions, and this file has the
;; commands.  magent-compat.el gives them the names of an older package.

;;; Code:

(require 'rethread-http)
(require 'rethread-server)
(require 'rethread-session)
(require 'rethread-file)
(require 'rethread-chat)
(require 'rethread-list)

(defconst rethread--context-max (* 1024 1024)
  "Characters of a region or file that goes with a question.
More than that fits into no model; a tool can read the file in parts.")

;;; Asking

(defvar rethread--prompts nil
  "What was asked before.")

;;;###autoload
(defun rethread-prompt (prompt)
  "Ask PROMPT in the current session, and show the chat.
The reply arrives by itself; \\[rethread-cancel] stops it, in the chat or in
this buffer.  What was added with `rethread-add-region' and
`rethread-add-file' goes with the question."
  (interactive (list (read-string (rethread--prompt-text) nil 'rethread--prompts)))
  (display-buffer (rethread-chat-buffer (rethread-agent-process prompt))
                  '(nil (inhibit-same-window . nil))))

(defun rethread--prompt-text ()
  "Return the prompt for a question, which cannot be asked during a reply."
  (let* ((session (rethread-session-get))
         (_ (rethread-chat--want-idle session))
         (labels (mapcar #'car (rethread-session--context session))))
    (format "Ask %s%s: " (rethread-chat--agent-name session)
            (if labels (concat " (with " (string-join (reverse labels) ", ") ")") ""))))

(defun rethread--add-context (label text)
  "Let TEXT, called LABEL, go with the next question."
  (when (> (length text) rethread--context-max)
    (user-error "Rethread: %s has %d characters, and %d fit; take a part of it, or name the file and let the agent read it"
                label (length text) rethread--context-max))
  (push (cons label (format "[%s]\n```\n%s%s```\n\n" label text
                            (if (string-suffix-p "\n" text) "" "\n")))
        (rethread-session--context (rethread-session-get)))
  (message "Rethread: %s is attached to the next question" label))

(defun rethread-add-region (start end)
  "Let the region from START to END go with the next question."
  (interactive "r")
  (rethread--add-context
   (format "%s lines %d-%d"
           (if buffer-file-name (file-name-nondirectory buffer-file-name) (buffer-name))
           (line-number-at-pos start) (line-number-at-pos (max start (1- end))))
   (buffer-substring-no-properties start end))
  (deactivate-mark))

(defun rethread-add-file (file)
  "Let the contents of FILE go with the next question."
  (interactive "fFile to add: ")
  (unless (file-regular-p file)
    (user-error "Rethread: %s is not a file that can be read" file))
  (rethread--add-context
   (abbreviate-file-name (expand-file-name file))
   (with-temp-buffer
     (insert-file-contents file nil 0 (* 4 rethread--context-max))
     (buffer-string))))

;;; The current session

(defun rethread-clear-session ()
  "Start over with a new session; \\[rethread-undo] reverts that."
  (interactive)
  (rethread-chat--want-idle (rethread-session-get))
  (rethread--refresh-chat (rethread-session-reset))
  (message "Rethread: cleared; M-x rethread-undo brings it back"))

(defun rethread--refresh-chat (session)
  "Show SESSION afresh where it is shown."
  (dolist (buffer (buffer-list))
    (when (eq (buffer-local-value 'rethread-chat--session buffer) session)
      (with-current-buffer buffer (rethread-chat-refresh)))))

(defun rethread-show-session ()
  "Show the recent messages of the current session as text."
  (interactive)
  (let ((text (rethread-session-summarize (rethread-session-get))))
    (with-current-buffer (get-buffer-create "*rethread summary*")
      (special-mode)
      (let ((inhibit-read-only t))
        (erase-buffer)
        (insert text "\n")
        (goto-char (point-min)))
      (display-buffer (current-buffer)))))

(defun rethread-show-current-agent ()
  "Show the agent of the current session."
  (interactive)
  (let ((agent (rethread-session-get-agent (rethread-session-get))))
    (if agent
        (message "Rethread: the agent here is %s (%s)"
                 (rethread-agent-info-name agent)
                 (rethread-plain (or (rethread-agent-info-description agent) "no description")))
      (message "Rethread: no agent yet; %s will answer, unless you choose another with C-c o A"
               rethread-default-agent))))

(defun rethread-select-agent (name)
  "Let the agent NAME answer in the current session from now on."
  (interactive
   (let* ((agents (rethread-agent-registry-list))
          (completion-extra-properties
           (list :annotation-function
                 (lambda (name)
                   (let ((agent (cl-find name agents :key #'rethread-agent-info-name
                                         :test #'equal)))
                     (concat "  " (rethread-plain
                                   (or (rethread-agent-info-description agent) ""))))))))
     (list (completing-read "Agent: " (mapcar #'rethread-agent-info-name agents) nil t))))
  (let ((agent (rethread-session-set-agent (rethread-session-get) name)))
    (message "Rethread: %s answers from now on" (rethread-agent-info-name agent))))

(defun rethread-compact (&optional quietly)
  "Let the model summarize the current session, and continue from the summary.
First it says what that would save; QUIETLY, or with a prefix argument,
nobody is asked.  Emacs does not wait for the summary.  When it is there, a
receipt says what was done, and `rethread-undo' reverts it."
  (interactive "P")
  (let ((session (rethread-session-get)))
    (unless (rethread-session--uuid session)
      (user-error "Rethread: this session has no messages yet"))
    (rethread-chat--want-idle session)
    (when (or quietly
              (let ((saving (rethread-session-request session "GET" "/compact")))
                (y-or-n-p (format "Compact about %d tokens to %d, with %s carried over verbatim? "
                                  (alist-get 'before saving) (alist-get 'after saving)
                                  (rethread--turns (alist-get 'carried saving))))))
      (message "Rethread: summarizing %s" (rethread-plain (rethread-session-get-id session)))
      (let ((rethread-server-url (rethread-session--server session)))
        (rethread-http-start
         "POST" (rethread-session--path session "/compact")
         :on-end (lambda (status body) (rethread--compacted session status body)))))))

(defun rethread--compacted (session status body)
  "SESSION was compacted; STATUS and BODY say what came of it."
  (if (not (equal status 201))
      (message "Rethread: %s; the session was not changed"
               (if status
                   (rethread-plain (rethread-http-problem-text status body
                                                               (rethread-http-address)))
                 "the server went away"))
    (rethread-session--move session (alist-get 'id (alist-get 'session body)))
    (setf (rethread-session--id session) (alist-get 'name (alist-get 'session body)))
    (rethread--refresh-chat session)
    (message "Rethread: compacted from %d tokens to %d, by %s, %s carried over; M-x rethread-undo reverts it"
             (alist-get 'before body) (alist-get 'after body)
             (rethread-plain (alist-get 'by (alist-get 'summary body)))
             (rethread--turns (alist-get 'turns (alist-get 'carried body))))))

(defun rethread--turns (count)
  "Return how many there are, COUNT, in words."
  (pcase count (0 "no turn") (1 "1 turn") (_ (format "%d turns" count))))

(defun rethread-undo ()
  "Undo the latest clear, or the compaction or fork this session came from."
  (interactive)
  (let* ((session (rethread-session-get))
         (previous (rethread-session--previous session)))
    (cond (previous
           (rethread-chat--want-idle session)
           (rethread--undo-reset session previous))
          ((rethread-session--uuid session) (rethread--undo-on-server session))
          (t (user-error "Rethread: there is nothing to undo in this session")))))

(defun rethread--undo-reset (session previous)
  "Go back from SESSION to PREVIOUS, which it was made in place of.
What was said in SESSION stays on the server."
  (when-let ((key (and (rethread-session--uuid session)
                       (rethread-session--uuid previous)
                       (rethread-session--key session))))
    (let ((rethread-server-url (rethread-session--server previous)))
      (rethread-http-request "PUT" (concat "/v1/keys/" (url-hexify-string key))
                             :body `((session . ,(rethread-session--uuid previous))))))
  (rethread--refresh-chat (rethread-session--replace session previous))
  (message "Rethread: undid the clear"))

(defun rethread--undo-on-server (session)
  "Let the server take back what happened last in SESSION."
  (let* ((undone (rethread-session-request session "POST" "/undo"))
         (back (alist-get 'back_to undone)))
    (when back
      (rethread-session--move session back)
      (setf (rethread-session--id session)
            (alist-get 'name (alist-get 'session (rethread-session-request session "GET" "")))))
    (rethread-session--forget session)
    (rethread--refresh-chat session)
    (message "Rethread: undid the %s"
             (pcase (alist-get 'undone undone)
               ("compact" "compaction")
               (what (rethread-plain what))))))

(defun rethread-save (&optional file)
  "Save the current session to a file, and say where.
With a prefix argument, ask for the FILE; otherwise it is in
`rethread-sessions-directory'."
  (interactive (list (and current-prefix-arg
                          (expand-file-name (read-file-name "Save session to: ")))))
  (message "Rethread: saved to %s"
           (abbreviate-file-name (rethread-session-save (rethread-session-get) file))))

(defun rethread-load (file)
  "Load a session from FILE, make it the current one, and show its chat."
  (interactive (list (read-file-name "Load session: "
                                     (file-name-as-directory rethread-sessions-directory)
                                     nil t)))
  (rethread-session-switch (rethread-session-load file)))

(defun rethread-chat ()
  "Show the chat of the current session."
  (interactive)
  (pop-to-buffer (rethread-chat-buffer (rethread-session-get))))

(defun rethread--with-context (from to)
  "Let what was added for the next question in FROM go to TO, and return TO."
  (unless (eq from to)
    (setf (rethread-session--context to)
          (append (rethread-session--context from) (rethread-session--context to)))
    (setf (rethread-session--context from) nil))
  to)

(defun rethread-use-buffer-session ()
  "Give this buffer a session of its own, and continue the one it had."
  (interactive)
  (let ((session (rethread--with-context (rethread-session-get) (rethread-buffer-session-get))))
    (message "Rethread: this buffer has a session of its own now, %s"
             (rethread-plain (or (rethread-session-id session) "with nothing said yet")))))

(defun rethread-use-project-session ()
  "Let this buffer mean the session of its project."
  (interactive)
  (let ((session (rethread--with-context (rethread-session-get) (rethread-project-session-get))))
    (setq rethread-buffer-session session)
    (message "Rethread: this buffer uses the session of %s now"
             (abbreviate-file-name (rethread-project-root)))))

(defun rethread-new-session ()
  "Start afresh: the next question opens a new session.  The old one is kept."
  (interactive)
  (setq rethread--current-session (rethread-session-create))
  (when rethread-buffer-session
    (kill-local-variable 'rethread-buffer-session))
  (message "Rethread: a new session starts with your next question; C-c o l lists the others"))

;;; Keys

(defvar rethread-command-map
  (let ((map (make-sparse-keymap)))
    (define-key map (kbd "p") #'rethread-prompt)
    (define-key map (kbd "c") #'rethread-clear-session)
    (define-key map (kbd "s") #'rethread-show-session)
    (define-key map (kbd "i") #'rethread-show-current-agent)
    (define-key map (kbd "A") #'rethread-select-agent)
    (define-key map (kbd "r") #'rethread-add-region)
    (define-key map (kbd "f") #'rethread-add-file)
    (define-key map (kbd "l") #'rethread-list-sessions)
    (define-key map (kbd "o") #'rethread-chat)
    (define-key map (kbd "n") #'rethread-new-session)
    (define-key map (kbd "k") #'rethread-compact)
    (define-key map (kbd "u") #'rethread-undo)
    (define-key map (kbd "b") #'rethread-use-buffer-session)
    (define-key map (kbd "P") #'rethread-use-project-session)
    (define-key map (kbd "w") #'rethread-save)
    (define-key map (kbd "L") #'rethread-load)
    (define-key map (kbd "x") #'rethread-cancel)
    map)
  "The keys after `rethread-prefix'.")

(defvar rethread-mode-map
  (let ((map (make-sparse-keymap)))
    ;; C-g means this only where a reply is arriving, and is itself elsewhere.
    (define-key map (kbd "C-g")
      '(menu-item "" rethread-cancel
                  :filter (lambda (command) (and (rethread--busy-here) command))))
    map)
  "Keys of `rethread-mode'.")

(defcustom rethread-prefix "C-c o"
  "Prefix of the keys of rethread, in `rethread-mode'."
  :type 'string
  :group 'rethread
  :set (lambda (symbol keys)
         (when (and (boundp symbol) (symbol-value symbol))
           (define-key rethread-mode-map (kbd (symbol-value symbol)) nil))
         (define-key rethread-mode-map (kbd keys) rethread-command-map)
         (set-default symbol keys)))

;;;###autoload
(define-minor-mode rethread-mode
  "Keys for sessions with agents, in every buffer.
\\<rethread-mode-map>\\[rethread-prompt] asks, \\[rethread-list-sessions] lists \
all sessions, \\[rethread-cancel] stops a reply.

\\{rethread-mode-map}"
  :global t
  :lighter nil
  :group 'rethread)

(provide 'rethread)
;;; rethread.el ends here
