;;; rethread-file.el --- Sessions as files  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: MIT OR Apache-2.0

;;; Commentary:

;; A session as a JSON file: its id, its messages oldest first, the time it
;; was saved, and its agent.  Other programs read and write such files, too.
;; The server keeps every message anyway; a file is for moving a session
;; elsewhere.

;;; Code:

(require 'rethread-session)

(defcustom rethread-sessions-directory (locate-user-emacs-file "magent-sessions/")
  "Folder where sessions are saved as files.
`rethread import --from magent' reads it, too."
  :type 'directory
  :group 'rethread)

(defcustom rethread-auto-save nil
  "Whether a session is saved to its file after each reply.
This is only for additional files: the server has every message on disk
before a model is asked."
  :type 'boolean
  :group 'rethread)

(defun rethread-session--file (session)
  "Return the file SESSION is saved to, if nobody names one."
  (expand-file-name
   (concat (replace-regexp-in-string "[^[:alnum:]._-]+\\|\\`\\.+" "-"
                                     (rethread-session-get-id session))
           ".json")
   rethread-sessions-directory))

(defun rethread-session-save (session &optional file)
  "Save SESSION to FILE, and return the path of the file.
Without FILE it is ID.json in `rethread-sessions-directory', which is made
if needed.  The file is written whole or not at all, and only you can
read it."
  (let* ((id (rethread-session-get-id session))
         (file (expand-file-name (or file (rethread-session--file session))))
         (agent (rethread-session--agent session))
         (messages (mapcar #'rethread-http-encode
                           (rethread-session--as-sent (rethread-session-get-messages session))))
         (json (concat "{\n  \"id\": " (rethread-file--string id)
                       ",\n  \"messages\": [" (and messages "\n    ")
                       (mapconcat #'identity messages ",\n    ")
                       (and messages "\n  ") "]"
                       (and agent
                            (concat ",\n  \"agent\": "
                                    (rethread-file--string (rethread-agent-info-name agent))))
                       ",\n  \"timestamp\": "
                       (rethread-file--string (format-time-string "%Y-%m-%dT%H:%M:%S%z"))
                       "\n}\n")))
    (condition-case failure
        (rethread-file--write file json)
      (file-error
       (rethread-http-fail 'rethread-error "%s could not be written (%s); the session is safe on its server, so choose another place and save again"
                           file (error-message-string failure))))
    file))

(defun rethread-file--string (text)
  "Return TEXT as a string of JSON."
  ;; An encoder that takes only lists and vectors is enough for this.
  (substring (rethread-http-encode (vector text)) 1 -1))

(defun rethread-file--write (file bytes)
  "Write BYTES to FILE, whole or not at all, for nobody else to read."
  (with-file-modes #o700
    (make-directory (file-name-directory file) t))
  ;; A temporary file is for its owner alone from the beginning.
  (let ((temporary (make-temp-file (concat file "-"))))
    (unwind-protect
        (let ((coding-system-for-write 'binary)
              (write-region-inhibit-fsync nil))
          (write-region bytes nil temporary nil 'silent)
          (rename-file temporary file t)
          (setq temporary nil))
      (when temporary (ignore-errors (delete-file temporary))))))

(defun rethread-session-load (file)
  "Return the session that was saved to FILE.
It is not the current one yet; see the command `rethread-load' for that.
If FILE cannot be read, an error says why, and no session is changed."
  (let* ((file (expand-file-name file))
         (data (rethread-file--read file))
         (messages (rethread-file--messages file (alist-get 'messages data)))
         (agent (alist-get 'agent data))
         (agent (if (consp agent) (alist-get 'name agent) agent))
         (id (alist-get 'id data))
         (session (rethread-session-create
                   :id (if (stringp id) id (file-name-base file))
                   :max-history (let ((limit (alist-get 'max_history data)))
                                  (and (natnump limit) (> limit 0) limit)))))
    (when (stringp agent)
      (setf (rethread-session--agent session) (make-rethread-agent-info :name agent)))
    (setf (rethread-session--pending session) (nreverse messages))
    session))

(defun rethread-file--bad (file what)
  "Signal that FILE is not a session, because of WHAT."
  (rethread-http-fail 'rethread-error "%s holds no session: %s; nothing was loaded and nothing has changed.  `jq . < FILE' finds what is wrong with it, and M-x rethread-load takes another one"
                      (abbreviate-file-name file) what))

(defun rethread-file--read (file)
  "Return the contents of FILE, as an alist."
  (unless (file-readable-p file)
    (rethread-file--bad file (if (file-exists-p file) "it cannot be read" "there is no such file")))
  (let ((data (condition-case failure
                  (with-temp-buffer
                    (let ((coding-system-for-read 'utf-8))
                      (insert-file-contents file))
                    (rethread-http-decode (buffer-string)))
                (error (rethread-file--bad file (error-message-string failure))))))
    (unless (and (consp data) (consp (car data)) (assq 'messages data))
      (rethread-file--bad file "it has no \"messages\""))
    data))

(defun rethread-file--messages (file list)
  "Return the messages in LIST, which comes from FILE; oldest first."
  (let ((messages
         (cl-loop
          for item in (if (listp list) list
                        (rethread-file--bad file "its \"messages\" are not a list"))
          for number from 1
          append (let ((content (and (consp item) (consp (car item)) (alist-get 'content item)))
                       (role (and (consp item) (consp (car item)) (alist-get 'role item))))
                   (cond ((equal role "system") nil)
                         ((and (member role '("user" "assistant" "tool"))
                               (or (stringp content) (listp content)))
                          (rethread-session--as-messages
                           `((role . ,role)
                             (content . ,(cond ((null content) "")
                                               ;; One result where others have a list.
                                               ((and (consp content) (symbolp (caar content)))
                                                (list content))
                                               (t content))))))
                         (t (rethread-file--bad file (format "message %d is none" number))))))))
    (if (rethread-file--newest-first-p messages) (nreverse messages) messages)))

(defun rethread-file--newest-first-p (messages)
  "Return non-nil if MESSAGES were written down newest first.
Some programs do that.  A result that comes before its call shows it;
without calls, a list that begins with a reply and ends with a question."
  (let ((calls nil) (early nil) (verdict 'unknown))
    (dolist (message messages)
      (let ((content (alist-get 'content message)))
        (cond ((stringp content))
              ((equal (alist-get 'type content) "tool_result")
               (let ((id (alist-get 'tool_use_id content)))
                 (if (member id calls)
                     (when (eq verdict 'unknown) (setq verdict nil))
                   (push id early))))
              (t (dolist (block content)
                   (when (equal (alist-get 'type block) "tool_use")
                     (push (alist-get 'id block) calls)
                     (when (and (eq verdict 'unknown) (member (alist-get 'id block) early))
                       (setq verdict t))))))))
    (if (eq verdict 'unknown)
        (and (cdr messages)
             (not (eq (alist-get 'role (car messages)) 'user))
             (eq (alist-get 'role (car (last messages))) 'user))
      verdict)))

(defun rethread-session-list-saved ()
  "Return the files in `rethread-sessions-directory', the newest first."
  (when (file-directory-p rethread-sessions-directory)
    (mapcar #'car
            (sort (mapcar (lambda (file)
                            (cons file (file-attribute-modification-time
                                        (file-attributes file))))
                          (directory-files rethread-sessions-directory t
                                           "\\`[^.].*\\.json\\'"))
                  (lambda (a b) (time-less-p (cdr b) (cdr a)))))))

(provide 'rethread-file)
;;; rethread-file.el ends here
