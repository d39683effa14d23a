;;; rethread-session.el --- Sessions that a rethread server keeps  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: MIT OR Apache-2.0

;;; Commentary:

;; A session here is a handle to a session on a server.  Its messages are
;; read from the server, which keeps them on disk and never removes them.
;; Messages that `rethread-session-messages' leaves out (because of
;; `max-history', or because the session was cleared) are still in the log.
;;
;; A session without messages does not exist on the server yet, so creating
;; one costs nothing and needs no server.  The same is true for a session
;; that was loaded from a file, until something is added to it.

;;; Code:

(require 'cl-lib)
(require 'seq)
(require 'subr-x)
(require 'url-util)
(require 'rethread-http)
(require 'rethread-server)

(defcustom rethread-max-history 100
  "How many messages a session shows, and a model sees, if it says nothing else.
The log keeps all of them.  See also `rethread-session-max-history'."
  :type 'integer
  :group 'rethread)

(defcustom rethread-default-agent "build"
  "Name of the agent that answers in a session that has none yet."
  :type 'string
  :group 'rethread)

(defcustom rethread-session-scope 'global
  "Which session `rethread-session-get' returns.
`global' is one session for this Emacs, `buffer' one for each buffer, and
`project' one for each project.  The sessions of buffers and projects are
found again after a restart, because the server knows them by name."
  :type '(choice (const global) (const buffer) (const project))
  :group 'rethread)

(cl-defstruct (rethread-agent-info (:copier nil))
  "An agent of the server."
  name description path model tools policy)

(cl-defstruct (rethread-session (:constructor rethread-session--make)
                                (:conc-name rethread-session--)
                                (:copier nil))
  "A session of a rethread server."
  server            ; `rethread-server-url' when it was made
  uuid              ; its id on the server, once it is there
  id                ; what people call it
  key               ; what the server finds it by, for buffers and projects
  limit             ; messages to show
  agent             ; a `rethread-agent-info', or nil
  pending           ; messages that are not on the server yet; newest first
  log               ; messages read so far, as (SEQ . MESSAGE); newest first
  marks             ; where clears and undos are, as (SEQ . BOUNDARY); newest first
  first head        ; the entries that were read: from FIRST up to HEAD
  context           ; what goes with the next question, as (LABEL . TEXT)
  previous          ; the session it was made in place of, if it was
  turn)             ; the turn that runs, if any

(defvar rethread--current-session nil
  "The session of this Emacs, when `rethread-session-scope' is `global'.
It is nil until someone asks for it with `rethread-session-get'.")

(defvar-local rethread-buffer-session nil
  "The session of this buffer, or nil if it shares one with others.")

(defvar rethread-project-sessions (make-hash-table :test 'equal)
  "The sessions of projects, by the folder of the project.")

;;; Requests

(defun rethread-session-request (session method path &rest arguments)
  "Send METHOD and PATH, below the address of SESSION, and return the answer.
ARGUMENTS are those of `rethread-http-request'."
  (let ((rethread-server-url (rethread-session--server session)))
    (apply #'rethread-http-request method (rethread-session--path session path) arguments)))

(defun rethread-session--path (session path)
  "Return the address of SESSION with PATH appended."
  (format "/v1/sessions/%s%s" (rethread-session--uuid session) path))

(defun rethread-session--ensure (session)
  "See to it that SESSION is on its server, with all that was said in it."
  (unless (rethread-session--uuid session)
    (let* ((rethread-server-url (rethread-session--server session))
           (agent (rethread-session--agent session))
           (name (rethread-session--name (rethread-session--id session)))
           (created (rethread-http-request
                     "POST" "/v1/sessions"
                     :body `((max_history . ,(rethread-session--limit-sent session))
                             ,@(and name `((name . ,name)))
                             ,@(and agent `((agent . ,(rethread-agent-info-name agent))))
                             ,@(when (rethread-session--key session)
                                 `((key . ,(rethread-session--key session)))))))
           (pending (reverse (rethread-session--pending session))))
      (setf (rethread-session--uuid session)
            (alist-get 'id (alist-get 'session created)))
      (when pending
        (condition-case failure
            (rethread-session--send session pending)
          ((error quit)
           ;; All of it, or nothing: a half of a conversation helps nobody.
           (ignore-errors (rethread-session-request session "DELETE" ""))
           (setf (rethread-session--uuid session) nil)
           (signal (car failure) (cdr failure)))))
      (setf (rethread-session--pending session) nil)))
  session)

(defun rethread-session--name (id)
  "Return ID as a name that a server takes, or nil."
  (when id
    (let ((name (string-trim (replace-regexp-in-string "[^[:alnum:]._-]+\\|\\.\\.+" "-" id)
                             "[-.]+" "[-.]+")))
      (and (string-match-p "[a-zA-Z0-9]" name) name))))

(defun rethread-session--limit-sent (session)
  "Return the history length of SESSION as the server takes it."
  (min (max 1 (rethread-session--limit session)) 4294967295))

(defconst rethread-session--batch 200
  "Messages that are sent at once: few enough for what a server takes in one body.")

(defun rethread-session--send (session messages)
  "Append MESSAGES, oldest first, to SESSION."
  (while messages
    (let ((batch (seq-take messages rethread-session--batch)))
      (rethread-session-request
       session "POST" "/entries" :repeatable t
       ;; With such a key a request that is sent twice is stored once.
       :headers `(("Idempotency-Key" . ,(format "emacs-%s-%08x%08x"
                                                (format-time-string "%s%N")
                                                (random #x10000000) (random #x10000000))))
       :body `((messages . ,batch)))
      (setq messages (nthcdr rethread-session--batch messages)))))

;;; Making and finding sessions

(cl-defun rethread-session-create (&key max-history agent id)
  "Return a new session, with nothing said in it.
MAX-HISTORY is the number of messages it shows and a model sees
\(`rethread-max-history' if nil), AGENT who answers in it, as
`rethread-agent-registry-get' returns it (or its name), and ID what it is
called; without one, `rethread-session-get-id' makes one up."
  (rethread-session--make :server rethread-server-url :id id
                          :limit (or max-history rethread-max-history)
                          :agent (rethread-session--as-agent agent)))

(defun rethread-session-get ()
  "Return the current session, and make one if there is none.
A buffer that has a session of its own (`rethread-buffer-session') means
that one; otherwise `rethread-session-scope' decides."
  (cond (rethread-buffer-session)
        ((eq rethread-session-scope 'buffer) (rethread-buffer-session-get))
        ((and (eq rethread-session-scope 'project) (rethread-project-root))
         (rethread-project-session-get))
        (t (or rethread--current-session
               (setq rethread--current-session (rethread-session-create))))))

(defun rethread-session--of-key (key)
  "Return the session the server knows as KEY; a new one if it knows none."
  (let ((found (condition-case nil
                   (rethread-http-request "GET" (concat "/v1/keys/" (url-hexify-string key)))
                 (rethread-not-found nil))))
    (if found
        (rethread-session-open (alist-get 'session found) key)
      (let ((session (rethread-session-create)))
        (setf (rethread-session--key session) key)
        session))))

(defun rethread-session--follow-key (session)
  "Let SESSION mean what its key points at by now.
Another Emacs may have compacted it, and then it continues elsewhere."
  (when-let ((key (and (rethread-session--uuid session) (rethread-session--key session))))
    (let* ((rethread-server-url (rethread-session--server session))
           (found (condition-case nil
                      (rethread-http-request "GET" (concat "/v1/keys/" (url-hexify-string key)))
                    (rethread-not-found nil)))
           (uuid (alist-get 'id (alist-get 'session found))))
      (when (and uuid (not (equal uuid (rethread-session--uuid session))))
        (rethread-session--move session uuid)))))

(defun rethread-buffer-session-get ()
  "Return the session of this buffer alone, and make one if there is none.
The file that the buffer visits, or else its name, finds it again later."
  (or rethread-buffer-session
      (setq rethread-buffer-session
            (rethread-session--of-key
             (concat "buffer:" (or buffer-file-name (buffer-name)))))))

(defun rethread-project-session-get ()
  "Return the session of the current project, and make one if there is none."
  (let ((root (or (rethread-project-root)
                  (user-error "Rethread: this buffer belongs to no project; M-x rethread-use-buffer-session gives it a session of its own"))))
    (or (gethash root rethread-project-sessions)
        (puthash root (rethread-session--of-key (concat "project:" (directory-file-name root)))
                 rethread-project-sessions))))

(defun rethread-session-open (header &optional key)
  "Return the session that HEADER, as a server describes it, is about.
KEY is what it was found by."
  (let ((agent (alist-get 'agent header)))
    (rethread-session--make :server rethread-server-url
                            :uuid (alist-get 'id header)
                            :id (alist-get 'name header)
                            :key (or key (car (alist-get 'keys header)))
                            :limit (or (alist-get 'max_history header) rethread-max-history)
                            :agent (and agent (make-rethread-agent-info :name agent)))))

(defun rethread-session--move (session uuid)
  "Let SESSION mean the session UUID of its server from now on."
  (setf (rethread-session--uuid session) uuid
        ;; What comes next to be taken back is how it came here.
        (rethread-session--previous session) nil)
  (rethread-session--forget session))

(defun rethread-session--forget (session)
  "Drop what was read of SESSION; it is read again when it is needed."
  (setf (rethread-session--log session) nil
        (rethread-session--marks session) nil
        (rethread-session--first session) nil
        (rethread-session--head session) nil))

(defvar rethread-chat--session)

(defun rethread-session-reset ()
  "Put a fresh session in place of the current one, and return it.
It has no id until it is saved, no agent, and nothing was said in it.  The
session before it stays on the server, and `rethread-undo' goes back to it."
  (let* ((before (rethread-session-get))
         (session (rethread-session-create)))
    (setf (rethread-session--server session) (rethread-session--server before)
          (rethread-session--key session) (rethread-session--key before)
          (rethread-session--previous session) before)
    (rethread-session--replace before session)))

(defun rethread-session--replace (before session)
  "Let SESSION be the current one wherever BEFORE is, and return SESSION."
  (when (eq rethread--current-session before)
    (setq rethread--current-session session))
  (maphash (lambda (root known)
             (when (eq known before)
               (puthash root session rethread-project-sessions)))
           rethread-project-sessions)
  (dolist (buffer (buffer-list))
    (with-current-buffer buffer
      (when (eq rethread-buffer-session before)
        (setq rethread-buffer-session session))
      (when (and (boundp 'rethread-chat--session) (eq rethread-chat--session before))
        (setq rethread-chat--session session))))
  session)

;;; What was said

(defun rethread-session-add-message (session role content)
  "Append a message to SESSION, and return SESSION.
ROLE is `user', `assistant', `tool' or `system'.  CONTENT is a string, or
a list of blocks such as ((type . \"text\") (text . \"Hello\")).

The message is on disk when this returns.  `rethread-session-messages'
shows no more than `rethread-session-max-history' of them."
  (unless (memq role '(user assistant tool system))
    (rethread-http-fail 'rethread-error "%S is not a role: ROLE is user, assistant, tool or system" role))
  (rethread-session--ensure session)
  (rethread-session--send session (list (list (cons 'role (symbol-name role))
                                              (cons 'content content))))
  session)

(defun rethread-session-add-tool-result (session tool-use-id result)
  "Append RESULT, a string, to SESSION as the answer to the call TOOL-USE-ID.
Return SESSION."
  (rethread-session-add-message session 'tool
                                `((type . "tool_result")
                                  (tool_use_id . ,tool-use-id)
                                  (content . ,result))))

(defun rethread-session--read (session from to)
  "Return the entries of SESSION from FROM up to TO, and how many it has.
TO may be nil, which means all there are."
  (let ((entries nil) (head from) (next from))
    (while (and next (or (null to) (< next to)))
      (let ((page (rethread-session-request
                   session "GET"
                   (format "/entries?from=%d&limit=%d" next
                           (if to (min 1000 (- to next)) 1000)))))
        (setq entries (nconc entries (alist-get 'entries page))
              head (alist-get 'head page)
              next (alist-get 'next page))))
    (cons entries head)))

(defun rethread-session--head-now (session)
  "Return how many entries SESSION has."
  (alist-get 'head (rethread-session-request
                    session "GET" "/entries?from=9007199254740992&limit=1")))

(defun rethread-session--boundary (session)
  "Return the entry of the latest clear of SESSION, or -1."
  (or (cdar (rethread-session--marks session)) -1))

(defun rethread-session--shown (session)
  "Return the messages read of SESSION that are shown; newest first."
  (let ((boundary (rethread-session--boundary session)))
    (cl-loop for (seq . message) in (rethread-session--log session)
             while (> seq boundary) collect message)))

(defun rethread-session--sync (session)
  "Read what is new in SESSION, or its end if nothing was read yet."
  (when (rethread-session--uuid session)
    (let ((step (* 4 (min (rethread-session--limit session) 1000))))
      (unless (rethread-session--head session)
        (let ((head (rethread-session--head-now session)))
          (setf (rethread-session--head session) (max 0 (- head step))
                (rethread-session--first session) (max 0 (- head step)))))
      (pcase-let ((`(,entries . ,head)
                   (rethread-session--read session (rethread-session--head session) nil)))
        (pcase-let ((`(,log . ,marks) (rethread-session--digest entries)))
          (setf (rethread-session--log session) (nconc log (rethread-session--log session))
                (rethread-session--marks session) (nconc marks (rethread-session--marks session))
                (rethread-session--head session) (max head (rethread-session--head session)))))
      ;; Further back, where that did not give all that is to be shown.
      (while (and (> (rethread-session--first session) 0)
                  (< (rethread-session--boundary session) (rethread-session--first session))
                  (< (length (rethread-session--shown session)) (rethread-session--limit session)))
        (let* ((to (rethread-session--first session))
               (from (max 0 (- to step))))
          (pcase-let ((`(,log . ,marks) (rethread-session--digest
                                         (car (rethread-session--read session from to)))))
            (setf (rethread-session--log session) (nconc (rethread-session--log session) log)
                  (rethread-session--marks session) (nconc (rethread-session--marks session) marks)
                  (rethread-session--first session) from)))))))

(defun rethread-session--digest (entries)
  "Return a pair: the messages in ENTRIES and their clears, each newest first."
  (let ((log nil) (marks nil))
    (dolist (entry entries)
      (let ((seq (alist-get 'seq entry)))
        (pcase (alist-get 'kind entry)
          ("message"
           (dolist (message (rethread-session--as-messages entry))
             (push (cons seq message) log)))
          ("restored"
           (dolist (carried (alist-get 'tail entry))
             (dolist (message (rethread-session--as-messages (alist-get 'message carried)))
               (push (cons seq message) log)))
           (push (cons seq `((role . user) (content . ,(alist-get 'prompt entry)))) log)
           (push (cons seq `((role . assistant) (content . ,(alist-get 'acknowledgment entry))))
                 log))
          ("cleared" (push (cons seq seq) marks))
          ("undone" (push (cons seq (or (alist-get 'seq (alist-get 'before entry)) -1)) marks)))))
    (cons log marks)))

(defun rethread-session--as-messages (entry)
  "Return ENTRY as messages of the form people work with here.
A role is a symbol; content is a string where there is only text, and
otherwise a list of blocks.  Each result of a tool is a message of its
own, with the result as its content."
  (let ((role (pcase (alist-get 'role entry)
                ("user" 'user) ("assistant" 'assistant) ("tool" 'tool)))
        (content (alist-get 'content entry)))
    (cond ((null role) nil)
          ((stringp content) `(((role . ,role) (content . ,content))))
          ((eq role 'tool)
           (mapcar (lambda (block)
                     `((role . tool) (content . ,(rethread-session--flat-result block))))
                   content))
          (t `(((role . ,role) (content . ,(rethread-session--flat-content content))))))))

(defun rethread-session--flat-result (block)
  "Return the tool result BLOCK with its content as a string, where it is text."
  (let ((content (alist-get 'content block)))
    (if (and (consp content)
             (cl-every (lambda (part) (equal (alist-get 'type part) "text")) content))
        (mapcar (lambda (pair)
                  (if (eq (car pair) 'content)
                      (cons 'content (mapconcat (lambda (part) (alist-get 'text part))
                                                content "\n"))
                    pair))
                block)
      block)))

(defun rethread-session--flat-content (blocks)
  "Return BLOCKS as a string where they are only text; otherwise as they are."
  (if (cl-every (lambda (block) (member (alist-get 'type block) '("text" "prefix"))) blocks)
      (let ((text "") (before nil))
        (dolist (block blocks text)
          (setq text (concat text
                             (and (equal before "text") "\n\n")
                             (alist-get 'text block))
                before (alist-get 'type block))))
    blocks))

(defun rethread-session-messages (session)
  "Return the messages of SESSION, newest first.
There are at most `rethread-session-max-history' of them, beginning
after the last clear.  This is a place for `setf': setting it appends
what is new, or clears the session first where it is another history."
  (rethread-session--sync session)
  (seq-take (if (rethread-session--uuid session)
                (rethread-session--shown session)
              (rethread-session--pending session))
            (rethread-session--limit session)))

(defun rethread-session-get-messages (session)
  "Return the messages of SESSION, oldest first, as a model would read them.
Each is an alist with a `role' and a `content'; see
`rethread-session-add-message'."
  (reverse (rethread-session-messages session)))

(defun rethread-session--set-messages (session messages)
  "Let SESSION show MESSAGES, newest first, and return them."
  (let* ((now (rethread-session-messages session))
         (added (cl-loop for tail on messages
                         until (rethread-session--begins-p (cdr tail) now)
                         collect (car tail) into new
                         finally return (if tail (append new (list (car tail))) new)))
         (limit (rethread-session--limit session)))
    (when (and messages (rethread-session--begins-p messages now))
      (setq added nil))
    (unless (equal (seq-take (append added now) limit) messages)
      (when (rethread-session--uuid session)
        (rethread-session-request session "POST" "/clear"))
      (setf (rethread-session--pending session) nil)
      (setq added messages))
    (when added
      (rethread-session--ensure session)
      (rethread-session--send session (rethread-session--as-sent (reverse added))))
    messages))

(defun rethread-session--begins-p (messages all)
  "Return non-nil if the list ALL begins with MESSAGES."
  (and (<= (length messages) (length all))
       (equal messages (seq-take all (length messages)))))

(defun rethread-session--as-sent (messages)
  "Return MESSAGES with their roles as a server takes them."
  (mapcar (lambda (message)
            `((role . ,(format "%s" (alist-get 'role message)))
              (content . ,(or (alist-get 'content message) ""))))
          messages))

(gv-define-simple-setter rethread-session-messages rethread-session--set-messages)

;;; What a session says about itself

(defun rethread-session-max-history (session)
  "Return how many messages of SESSION are shown, and a model sees.
This is a place for `setf'; `most-positive-fixnum' shows all of them."
  (rethread-session--limit session))

(defun rethread-session--set-max-history (session limit)
  "Let SESSION show LIMIT messages, and return LIMIT."
  (unless (natnump limit)
    (signal 'wrong-type-argument (list 'natnump limit)))
  (setf (rethread-session--limit session) limit)
  (when (rethread-session--uuid session)
    (rethread-session-request session "PATCH" ""
                              :body `((max_history . ,(rethread-session--limit-sent session)))))
  limit)

(gv-define-simple-setter rethread-session-max-history rethread-session--set-max-history)

(defun rethread-session-id (session)
  "Return what SESSION is called, or nil if nobody called it anything yet.
This is a place for `setf'."
  (rethread-session--id session))

(defun rethread-session--set-id (session id)
  "Call SESSION by the name ID, and return ID."
  (setf (rethread-session--id session) id)
  (when-let ((name (and (rethread-session--uuid session) (rethread-session--name id))))
    (rethread-session-request session "PATCH" "" :body `((name . ,name))))
  id)

(gv-define-simple-setter rethread-session-id rethread-session--set-id)

(defun rethread-session-get-id (session)
  "Return what SESSION is called, making up session-YYYYMMDD-HHMMSS if needed."
  (or (rethread-session--id session)
      (rethread-session--set-id session (format-time-string "session-%Y%m%d-%H%M%S"))))

(defun rethread-session-get-context-size (session)
  "Return about how many tokens the messages of SESSION are.
Four characters count as one, as a rule of thumb."
  (/ (cl-loop for message in (rethread-session-messages session)
              sum (rethread-session--characters (alist-get 'content message)))
     4))

(defun rethread-session--characters (value)
  "Return the number of characters in VALUE, which may be nested."
  (cond ((stringp value) (length value))
        ((consp value) (+ (rethread-session--characters (car value))
                          (rethread-session--characters (cdr value))))
        ((numberp value) (length (number-to-string value)))
        (t 0)))

;;; Agents

(defun rethread-agent-registry-list ()
  "Return the agents of the server, each a `rethread-agent-info'."
  (mapcar (lambda (agent)
            (make-rethread-agent-info
             :name (alist-get 'name agent) :description (alist-get 'description agent)
             :path (alist-get 'path agent) :model (alist-get 'model agent)
             :tools (alist-get 'tools agent) :policy (alist-get 'policy agent)))
          (alist-get 'agents (rethread-http-request "GET" "/v1/agents"))))

(defun rethread-agent-registry-get (name)
  "Return the agent called NAME, a `rethread-agent-info'; nil if there is none.
Built in are build, plan, explore, general and compaction; files of your
own add more (see `rethread agents')."
  (cl-find name (rethread-agent-registry-list)
           :key #'rethread-agent-info-name :test #'equal))

(defun rethread-session--as-agent (agent)
  "Return AGENT, which may be a name, as a `rethread-agent-info' or nil."
  (cond ((or (null agent) (rethread-agent-info-p agent)) agent)
        ((stringp agent)
         (or (rethread-agent-registry-get agent)
             (rethread-http-fail 'rethread-error "there is no agent `%s'; there are %s" agent
                                 (mapconcat #'rethread-agent-info-name
                                            (rethread-agent-registry-list) ", "))))
        (t (signal 'wrong-type-argument (list 'rethread-agent-info-p agent)))))

(defun rethread-session-get-agent (session)
  "Return the agent of SESSION, a `rethread-agent-info'; nil if it has none yet.
A session without one gets `rethread-default-agent' with its first prompt."
  (let ((agent (rethread-session--agent session)))
    ;; Of a session that was opened only the name of its agent is known.
    (when (and agent (null (rethread-agent-info-path agent)))
      (let ((rethread-server-url (rethread-session--server session)))
        (setq agent (or (rethread-agent-registry-get (rethread-agent-info-name agent)) agent))
        (setf (rethread-session--agent session) agent)))
    agent))

(defun rethread-session-set-agent (session agent)
  "Let AGENT answer in SESSION from now on, and return it.
AGENT is what `rethread-agent-registry-get' returns, or a name.  The
server keeps it with the session."
  (let ((agent (let ((rethread-server-url (rethread-session--server session)))
                 (rethread-session--as-agent agent))))
    (when (and agent (rethread-session--uuid session))
      (rethread-session-request session "PATCH" ""
                                :body `((agent . ,(rethread-agent-info-name agent)))))
    (setf (rethread-session--agent session) agent)))

(gv-define-simple-setter rethread-session-get-agent rethread-session-set-agent)

(defun rethread-session--assign-agent (session)
  "Give SESSION, which has no agent, `rethread-default-agent'."
  (let* ((rethread-server-url (rethread-session--server session))
         (agent (rethread-session--as-agent rethread-default-agent)))
    (if (and (rethread-session--uuid session)
             (equal rethread-default-agent
                    (alist-get 'agent (alist-get 'session
                                                 (rethread-session-request session "GET" "")))))
        ;; The server gave it that one already.
        (setf (rethread-session--agent session) agent)
      (rethread-session-set-agent session agent))))

;;; As text

(defconst rethread-session--recent 40
  "Messages a summary shows: about what fits on a screen or two.")

(defconst rethread-session--clip 500
  "Characters of one message in a summary.")

(defun rethread-plain (text)
  "Return TEXT, which may be anyone's words, as something that is safe to show.
Control characters and those that turn the direction of writing become
visible; text properties are dropped."
  (replace-regexp-in-string
   "[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u061c\u200b\u200c\u200e\u200f\u2028-\u202e\u2060-\u2069\ufeff]"
   (lambda (found) (format "\\u{%x}" (aref found 0)))
   (substring-no-properties text) t t))

(defun rethread-session--line (role text)
  "Return a line for TEXT, said by ROLE."
  (format "[%s] %s" role (rethread-plain (truncate-string-to-width
                                          text rethread-session--clip nil nil t))))

(defun rethread-session--lines (message)
  "Return MESSAGE as lines of text."
  (let* ((role (upcase (symbol-name (alist-get 'role message))))
         (content (alist-get 'content message))
         (one-line (lambda (text) (replace-regexp-in-string "\n" "\\n" text t t))))
    (cond ((stringp content) (list (rethread-session--line role content)))
          ((equal (alist-get 'type content) "tool_result")
           (let ((text (alist-get 'content content)))
             (list (rethread-session--line
                    "TOOL" (concat "tool_result: "
                                   (funcall one-line (if (stringp text) text
                                                       (format "%S" text))))))))
          (t (delq nil
                   (mapcar (lambda (block)
                             (pcase (alist-get 'type block)
                               ((or "text" "prefix")
                                (rethread-session--line role (alist-get 'text block)))
                               ("tool_use"
                                (rethread-session--line
                                 "TOOL" (concat "tool_use: " (alist-get 'name block))))))
                           content))))))

(defun rethread-session-summarize (session)
  "Return the recent messages of SESSION as text, a line or more for each.
No model is asked; `rethread-compact' lets one write a summary."
  (concat "Session Summary:\n\n"
          (mapconcat #'identity
                     (cl-loop for message in (reverse (seq-take (rethread-session-messages session)
                                                                rethread-session--recent))
                              append (rethread-session--lines message))
                     "\n")))

(provide 'rethread-session)
;;; rethread-session.el ends here
