;;; rethread-chat.el --- Ask, and watch the reply arrive  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: MIT OR Apache-2.0

;;; Commentary:

;; A turn is one question and everything until its reply.  It runs on the
;; server; this file sends the question, and writes what happens into a chat
;; buffer while it happens.  Emacs does not wait: other work continues.
;;
;; What a model says is data.  It is inserted as plain text, with control
;; characters made visible; it is never evaluated, never a format string, and
;; brings no text properties, links or local variables with it.

;;; Code:

(require 'rethread-session)
(require 'rethread-file)

(defcustom rethread-policy "emacs"
  "How the server builds the context for a model.
`emacs' sends the last messages of the session, as many as its
`rethread-session-max-history' says; `chat' and `editor' shorten old tool
results instead.  `rethread context' on the command line explains more."
  :type '(choice (const "emacs") (const "chat") (const "editor") (const "cli") (const "bot"))
  :group 'rethread)

(defcustom rethread-turn-ended-hook nil
  "Functions to call with the session when a turn in it is over."
  :type 'hook
  :group 'rethread)

(defface rethread-heading '((t :inherit font-lock-keyword-face :weight bold))
  "Face for who speaks in a chat."
  :group 'rethread)

(defface rethread-note '((t :inherit font-lock-comment-face))
  "Face for notes about a turn."
  :group 'rethread)

(cl-defstruct (rethread-turn (:copier nil))
  "A turn that runs."
  session agent callback
  name              ; what the server calls it, to stop this one and no other
  call              ; the request, for `rethread-http-stop'
  (text "")         ; what the model said since its last call of a tool
  answer            ; the event that ended it, or nil
  asked-in          ; the buffer it was asked in
  (state 'asked))   ; `asked', `waiting' for someone else, `running' or `stopping'

(defvar-local rethread-chat--session nil
  "The session this buffer shows.")

(defvar-local rethread-chat--empty nil
  "Whether this buffer says that nothing was said yet.")

(defvar-local rethread--asked-here nil
  "The session that was asked something in this buffer.")

;;; The buffer

(defvar rethread-chat-mode-map
  (let ((map (make-sparse-keymap)))
    (define-key map (kbd "p") #'rethread-prompt)
    (define-key map (kbd "RET") #'rethread-prompt)
    (define-key map (kbd "C-g") #'rethread-chat-quit)
    (define-key map (kbd "k") #'rethread-compact)
    (define-key map (kbd "u") #'rethread-undo)
    (define-key map (kbd "A") #'rethread-select-agent)
    (define-key map (kbd "w") #'rethread-save)
    (define-key map (kbd "l") #'rethread-list-sessions)
    map)
  "Keys of a chat.")

(declare-function rethread-prompt "rethread")
(declare-function rethread-compact "rethread")
(declare-function rethread-undo "rethread")
(declare-function rethread-select-agent "rethread")
(declare-function rethread-save "rethread")
(declare-function rethread-list-sessions "rethread-list")

(define-derived-mode rethread-chat-mode special-mode "Rethread"
  "A conversation with an agent.
\\<rethread-chat-mode-map>\\[rethread-prompt] asks, \\[rethread-chat-quit] \
stops a reply, \\[revert-buffer] shows the session afresh,
\\[rethread-compact] compacts it and \\[rethread-undo] takes that back.

\\{rethread-chat-mode-map}"
  (setq-local revert-buffer-function (lambda (&rest _) (rethread-chat-refresh)))
  (setq-local buffer-undo-list t)
  (setq-local enable-local-variables nil)
  (setq-local bidi-paragraph-direction nil)
  (visual-line-mode 1))

(defun rethread-chat--buffer (session)
  "Return the chat of SESSION, or nil if there is no buffer for it."
  (cl-find-if (lambda (buffer)
                (eq (buffer-local-value 'rethread-chat--session buffer) session))
              (buffer-list)))

(defun rethread-chat-buffer (session)
  "Return the chat of SESSION, and make a buffer for it if there is none."
  (or (rethread-chat--buffer session)
      (let ((buffer (generate-new-buffer
                     (format "*rethread %s*" (or (rethread-session-id session) "chat")))))
        (with-current-buffer buffer
          (rethread-chat-mode)
          (setq rethread-chat--session session
                rethread-buffer-session session)
          (rethread-chat--show))
        buffer)))

(defun rethread-chat-refresh ()
  "Show afresh what was said in the session of this buffer."
  (interactive)
  (unless rethread-chat--session
    (user-error "Rethread: this buffer is not a chat"))
  (when (rethread-session--turn rethread-chat--session)
    (user-error "Rethread: a reply is arriving; look again when it is complete"))
  (rethread-chat--show))

(defun rethread-chat--show ()
  "Show what was said in the session of this buffer, and what is being said."
  (let* ((session rethread-chat--session)
         (turn (rethread-session--turn session))
         (inhibit-read-only t))
    (let ((messages (rethread-session-get-messages session)))
      (erase-buffer)
      (setq rethread-chat--empty (null messages))
      (if (null messages)
          (rethread-chat--note "Nothing was said yet.  Press p to ask something.\n")
        (dolist (message messages)
          (rethread-chat--show-message session message)))
      (when turn
        (rethread-chat--heading (rethread-turn-agent turn))
        (insert (rethread-plain (rethread-turn-text turn))))
      (goto-char (point-max))
      (dolist (window (get-buffer-window-list nil nil t))
        (set-window-point window (point-max))))))

(defun rethread-chat--agent-name (session)
  "Return the name of the agent that answers in SESSION."
  (let ((agent (rethread-session--agent session)))
    (if agent (rethread-agent-info-name agent) rethread-default-agent)))

(defun rethread-chat--heading (who)
  "Insert a heading with WHO in it."
  (unless (bobp)
    (insert (if (bolp) "\n" "\n\n")))
  (insert (propertize (concat (rethread-plain who) ":") 'face 'rethread-heading) " "))

(defun rethread-chat--note (text)
  "Insert TEXT, a note about a turn."
  (insert (propertize (rethread-plain text) 'face 'rethread-note)))

(defun rethread-chat--show-message (session message)
  "Insert MESSAGE of SESSION."
  (let ((content (alist-get 'content message)))
    (pcase (alist-get 'role message)
      ('user (rethread-chat--heading "You")
             (insert (rethread-plain (rethread-chat--text content))))
      ('assistant
       (rethread-chat--heading (rethread-chat--agent-name session))
       (if (stringp content)
           (insert (rethread-plain content))
         (dolist (block content)
           (pcase (alist-get 'type block)
             ("text" (insert (rethread-plain (alist-get 'text block))))
             ("tool_use" (rethread-chat--tool (alist-get 'name block)
                                              (alist-get 'input block)))))))
      ('tool (rethread-chat--note
              (format "\n  %s" (rethread-chat--short
                                (rethread-chat--text (alist-get 'content content)))))))))

(defun rethread-chat--text (content)
  "Return the text in CONTENT, a string or a list of blocks."
  (if (stringp content) content
    (mapconcat (lambda (block) (or (and (consp block) (alist-get 'text block)) ""))
               content "")))

(defun rethread-chat--short (text)
  "Return the beginning of TEXT, on one line."
  (truncate-string-to-width (replace-regexp-in-string "[ \t\n\r]+" " " text) 100 nil nil t))

(defun rethread-chat--tool (name input)
  "Insert that the tool NAME is called with INPUT."
  (unless (bolp) (insert "\n"))
  (rethread-chat--note
   (format "→ %s %s" name
           (rethread-chat--short
            (mapconcat (lambda (pair)
                         (if (consp pair)
                             (format "%s=%s" (car pair)
                                     (if (stringp (cdr pair)) (cdr pair)
                                       (format "%S" (cdr pair))))
                           (format "%S" pair)))
                       (and (listp input) input) " ")))))

(defmacro rethread-chat--writing (session &rest body)
  "Run BODY at the end of the chat of SESSION, if it is still there.
Windows that show the end follow it; others stay where they are."
  (declare (indent 1) (debug t))
  `(rethread-chat--write ,session (lambda () ,@body)))

(defun rethread-chat--write (session writer)
  "Call WRITER at the end of the chat of SESSION; see `rethread-chat--writing'."
  (when-let ((buffer (rethread-chat--buffer session)))
    (with-current-buffer buffer
      (let* ((inhibit-read-only t)
             (follow (cl-remove-if-not (lambda (window)
                                         (= (window-point window) (point-max)))
                                       (get-buffer-window-list buffer nil t)))
             (at-end (= (point) (point-max))))
        (save-excursion
          (goto-char (point-max))
          (funcall writer))
        (when at-end (goto-char (point-max)))
        (dolist (window follow)
          (set-window-point window (point-max)))))))

;;; Turns

(defun rethread-session-busy-p (session)
  "Return non-nil while SESSION is replying to this Emacs."
  (and (rethread-session--turn session) t))

(defun rethread-chat--want-idle (session)
  "Signal an error while SESSION is replying."
  (when (rethread-session-busy-p session)
    (user-error "Rethread: a reply is still arriving; wait for it, or stop it with M-x rethread-cancel")))

(defun rethread-agent-process (prompt &optional callback agent session)
  "Ask PROMPT in the current session, and return the session at once.
The reply arrives in the chat buffer of the session.  When it is complete,
CALLBACK is called with its text, or with nil if there is none.

AGENT, if not nil, answers this once (see `rethread-agent-process-with-agent').
SESSION is the session to ask in, if that is not the current one.  A session
without an agent gets `rethread-default-agent'."
  (let ((session (or session (rethread-session-get)))
        (context nil))
    (when (string-blank-p prompt)
      (user-error "Rethread: the prompt is empty"))
    (rethread-chat--want-idle session)
    (rethread-session--follow-key session)
    (unless (rethread-session--agent session)
      (rethread-session--assign-agent session))
    (rethread-session--ensure session)
    (rethread-chat-buffer session)
    (setq context (reverse (rethread-session--context session)))
    (let* ((name (rethread-chat--turn-name))
           (turn (make-rethread-turn :session session :callback callback :name name
                                     :agent (or agent (rethread-chat--agent-name session))
                                     :asked-in (current-buffer)))
           (rethread-server-url (rethread-session--server session)))
      (setf (rethread-turn-call turn)
            (rethread-http-start
             "POST" (rethread-session--path session "/turns/stream")
             :body `((content . ,(append
                                  (mapcar (lambda (item)
                                            `((type . "prefix") (text . ,(cdr item))))
                                          context)
                                  `(((type . "text") (text . ,prompt)))))
                     (policy . ,rethread-policy)
                     (turn . ,name)
                     ,@(and agent `((agent . ,agent))))
             :on-event (lambda (event) (rethread-chat--event turn event))
             :on-end (lambda (status body) (rethread-chat--ended turn status body))))
      (setf (rethread-session--turn session) turn
            (rethread-session--context session) nil)
      (setq rethread--asked-here session)
      (rethread-chat--begin turn prompt context))
    session))

(defun rethread-agent-process-with-agent (prompt agent &optional callback)
  "Ask PROMPT in the current session, and let AGENT answer this once.
AGENT is a name such as \"plan\", or what `rethread-agent-registry-get'
returns.  The session keeps its own agent.  CALLBACK is that of
`rethread-agent-process'."
  (let ((agent (rethread-session--as-agent agent)))
    (rethread-agent-process prompt callback (rethread-agent-info-name agent))))

(defun rethread-chat--begin (turn prompt context)
  "Show the PROMPT of TURN, with its CONTEXT."
  (let ((session (rethread-turn-session turn)))
    (rethread-chat--writing session
      (when rethread-chat--empty
        (setq rethread-chat--empty nil)
        (erase-buffer))
      (rethread-chat--heading "You")
      (dolist (item context)
        (rethread-chat--note (format "[with %s] " (car item))))
      (insert (rethread-plain prompt))
      (rethread-chat--heading (rethread-turn-agent turn)))
    (rethread-chat--mode-line turn)))

(defun rethread-chat--mode-line (turn)
  "Let the mode line of the chat say how TURN is."
  (when-let ((buffer (rethread-chat--buffer (rethread-turn-session turn))))
    (with-current-buffer buffer
      (setq mode-line-process
            (pcase (and (rethread-session--turn (rethread-turn-session turn))
                        (rethread-turn-state turn))
              ('nil nil)
              ('asked ":asked")
              ('waiting ":waiting")
              ('stopping ":stopping")
              (_ ":replying")))
      (force-mode-line-update))))

(defun rethread-chat--event (turn event)
  "Show EVENT, which happened in TURN."
  (let ((session (rethread-turn-session turn)))
    (unless (eq (rethread-turn-state turn) 'stopping)
      (setf (rethread-turn-state turn)
            (if (equal (alist-get 'type event) "waiting") 'waiting 'running)))
    (pcase (alist-get 'type event)
      ("text"
       (setf (rethread-turn-text turn) (concat (rethread-turn-text turn) (alist-get 'text event)))
       (rethread-chat--writing session
         (insert (rethread-plain (alist-get 'text event)))))
      ("tool_call"
       (setf (rethread-turn-text turn) "")
       (rethread-chat--writing session
         (rethread-chat--tool (alist-get 'tool event) (alist-get 'args event))))
      ("tool_result"
       (rethread-chat--writing session
         (rethread-chat--note (format "\n  %s %s\n"
                                      (if (eq (alist-get 'success event) :false) "✗" "✓")
                                      (rethread-chat--short (or (alist-get 'text event) ""))))))
      ("waiting"
       (message "Rethread: waiting for a turn of %s in this session"
                (rethread-plain (or (alist-get 'holder event) "someone else"))))
      ("question_cut"
       (rethread-chat--writing session
         (rethread-chat--note
          (format "[the question did not fit: %d of its %d characters were sent; the log has all of it]\n"
                  (alist-get 'to_chars event) (alist-get 'from_chars event)))))
      ("retry"
       ;; The next answer starts afresh, and does not continue where this one broke off.
       (unless (string-empty-p (rethread-turn-text turn))
         (setf (rethread-turn-text turn) "")
         (rethread-chat--writing session
           (rethread-chat--note "\n[the reply broke off here; retrying]\n")))
       (message "Rethread: retrying in %.0f s (%s)"
                (/ (alist-get 'ms event) 1000.0) (rethread-plain (alist-get 'why event))))
      ((or "answer" "error")
       (setf (rethread-turn-answer turn) event)))
    (rethread-chat--mode-line turn)))

(defun rethread-chat--ended (turn status body)
  "TURN is over: its stream ended with STATUS and BODY."
  (let* ((session (rethread-turn-session turn))
         (event (rethread-turn-answer turn))
         (answer (alist-get 'answer event))
         (address (rethread-http--call-address (rethread-turn-call turn)))
         (trouble
          (cond ((equal (alist-get 'type event) "error")
                 (let ((problem (alist-get 'problem event)))
                   (rethread-http-problem-text (alist-get 'status problem) problem address)))
                (answer nil)
                ((and status (>= status 300)) (rethread-http-problem-text status body address))
                (t (format "the connection to %s was lost during the reply; the question and everything complete are in the log, so ask again to continue"
                           address)))))
    (setf (rethread-session--turn session) nil)
    (rethread-chat--writing session
      ;; What was said in pieces is there already; a limit adds a line.
      (when (and answer (not (string-prefix-p (string-trim answer)
                                              (string-trim (rethread-turn-text turn)))))
        (let ((said (string-trim-right (rethread-turn-text turn))))
          (insert (rethread-plain (if (string-prefix-p said answer)
                                      (substring answer (length said))
                                    (concat "\n" answer))))))
      (when (equal (alist-get 'end event) "stopped")
        (rethread-chat--note "\n[stopped; the part that arrived is kept]"))
      (when trouble
        (rethread-chat--note (format "\n[%s]" trouble)))
      (insert "\n"))
    (rethread-chat--mode-line turn)
    (cond (trouble (message "Rethread: %s" (rethread-plain trouble)))
          ((equal (alist-get 'end event) "stopped") (message "Rethread: stopped")))
    (when rethread-auto-save
      (condition-case failure
          (rethread-session-save session)
        (error (message "%s" (error-message-string failure)))))
    (rethread-http--notify #'run-hook-with-args 'rethread-turn-ended-hook session)
    (when (rethread-turn-callback turn)
      (funcall (rethread-turn-callback turn) answer))))

(defvar rethread-chat--turns 0
  "How many turns this Emacs asked for.")

(defun rethread-chat--turn-name ()
  "Return a name for a turn that no other turn has."
  (format "emacs-%d-%.6f-%d" (emacs-pid) (float-time)
          (setq rethread-chat--turns (1+ rethread-chat--turns))))

(defun rethread--busy-here ()
  "Return the session that is replying to this buffer, or nil."
  (cl-find-if (lambda (session) (and session (rethread-session-busy-p session)))
              (list rethread-chat--session rethread--asked-here)))

(defun rethread-cancel ()
  "Stop the reply that is arriving in the session of this buffer.
The part that arrived is kept."
  (interactive)
  (let* ((session (or (rethread--busy-here)
                      (let ((current (rethread-session-get)))
                        (and (rethread-session-busy-p current) current))
                      (user-error "Rethread: no reply is arriving here")))
         (turn (rethread-session--turn session)))
    (setf (rethread-turn-state turn) 'stopping)
    (rethread-chat--mode-line turn)
    (message "Rethread: stopping")
    (let ((rethread-server-url (rethread-session--server session)))
      (rethread-http-start
       "POST" (rethread-session--path session "/turns/stop")
       ;; By its name: the turn that runs may be somebody else's, and this one wait for it.
       :body `((turn . ,(rethread-turn-name turn)))
       :on-end (lambda (status _)
                 (unless (equal status 200)
                   (message "Rethread: the reply could not be stopped; wait until it ends")))))
    (deactivate-mark)))

(defun rethread-chat-quit ()
  "Stop the reply that is arriving here; without one, just quit."
  (interactive)
  (if (rethread--busy-here) (rethread-cancel) (keyboard-quit)))

(provide 'rethread-chat)
;;; rethread-chat.el ends here
