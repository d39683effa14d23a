;;; rethread-list.el --- A list of all sessions  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: MIT OR Apache-2.0

;;; Commentary:

;; Every session of the server, of any program: open, resume, fork,
;; rename, archive, search, sort.  Nothing here deletes.

;;; Code:

(require 'tabulated-list)
(require 'rethread-chat)

(defconst rethread-list--page 200
  "Sessions that are fetched at once; `rethread-list-more' fetches further ones.")

(defvar-local rethread-list--all nil
  "Whether archived sessions, and all members of a chain, are shown, too.")

(defvar-local rethread-list--words nil
  "The words that were searched for, or nil if all sessions are shown.")

(defvar-local rethread-list--wanted rethread-list--page
  "How many sessions are to be shown.")

(defvar rethread-list-mode-map
  (let ((map (make-sparse-keymap)))
    (define-key map (kbd "RET") #'rethread-list-open)
    (define-key map (kbd "o") #'rethread-list-open)
    (define-key map (kbd "r") #'rethread-list-resume)
    (define-key map (kbd "f") #'rethread-list-fork)
    (define-key map (kbd "R") #'rethread-list-rename)
    (define-key map (kbd "a") #'rethread-list-archive)
    (define-key map (kbd "s") #'rethread-list-search)
    (define-key map (kbd "/") #'rethread-list-search)
    (define-key map (kbd "t") #'rethread-list-toggle-all)
    (define-key map (kbd "+") #'rethread-list-more)
    map)
  "Keys of the list of sessions.")

(define-derived-mode rethread-list-mode tabulated-list-mode "Sessions"
  "All sessions of the server.
\\<rethread-list-mode-map>\\[rethread-list-open] opens the session at point, \
\\[rethread-list-resume] starts a new one from its
summary, \\[rethread-list-fork] copies it, \\[rethread-list-rename] renames it \
and \\[rethread-list-archive] puts it away or back.
\\[rethread-list-search] searches everything that was said, \
\\[rethread-list-toggle-all] shows archived sessions too,
and \\[tabulated-list-sort] sorts by the column at point.

\\{rethread-list-mode-map}"
  (setq tabulated-list-padding 1)
  (setq-local revert-buffer-function (lambda (&rest _) (rethread-list-refresh)))
  (setq-local mode-line-process
              '(:eval (cond (rethread-list--words
                             (concat " found: " rethread-list--words))
                            (rethread-list--all " all")))))

;;;###autoload
(defun rethread-list-sessions ()
  "Show all sessions of the server in a list.
\\<rethread-list-mode-map>There, \\[rethread-list-open] opens one, \
\\[rethread-list-search] searches them, and \\[describe-mode] lists the rest."
  (interactive)
  (let ((buffer (get-buffer-create "*rethread sessions*")))
    (with-current-buffer buffer
      (unless (derived-mode-p 'rethread-list-mode)
        (rethread-list-mode))
      (setq rethread-list--words nil)
      (rethread-list-refresh))
    (pop-to-buffer buffer)))

(defun rethread-list-refresh ()
  "Show the list as it is now."
  (interactive)
  (if rethread-list--words
      (rethread-list--show-hits)
    (rethread-list--show-sessions))
  (tabulated-list-print t))

(defun rethread-list--show-sessions ()
  "Fill the list with sessions."
  (setq tabulated-list-format
        (vector '("Name" 28 t)
                '("Active" 16 t)
                (list "Messages" 8 (rethread-list--by 'messages) :right-align t)
                (list "Tokens" 9 (rethread-list--by 'tokens) :right-align t)
                '("Agent" 11 t)
                '("First message" 0 t))
        tabulated-list-sort-key (or tabulated-list-sort-key '("Active" . t)))
  (let ((sessions nil) (next t) (damaged nil))
    (while (and next (< (length sessions) rethread-list--wanted))
      (let ((page (rethread-http-request
                   "GET" (format "/v1/sessions?limit=%d%s%s" rethread-list--page
                                 (if rethread-list--all "&all=true" "")
                                 (if (stringp next)
                                     (concat "&after=" (url-hexify-string next))
                                   "")))))
        (setq sessions (nconc sessions (alist-get 'sessions page))
              damaged (append damaged (alist-get 'damaged page))
              next (alist-get 'next page))))
    (setq tabulated-list-entries (mapcar #'rethread-list--row sessions))
    (tabulated-list-init-header)
    (cond (damaged (message "Rethread: %d sessions cannot be read; `rethread doctor' says more"
                            (length damaged)))
          (next (message "Rethread: there are more sessions; press + for them"))
          ((null sessions)
           (message "Rethread: there are no sessions yet; M-x rethread-prompt starts one")))))

(defun rethread-list--by (field)
  "Return a function to sort rows by the number FIELD of their sessions."
  (lambda (a b)
    (< (alist-get field (car a)) (alist-get field (car b)))))

(defun rethread-list--row (session)
  "Return the row for SESSION, as the server describes it."
  (list session
        (vector (concat (rethread-plain (alist-get 'name session))
                        (if (eq (alist-get 'archived session) t) " (archived)" ""))
                (rethread-list--time (alist-get 'last_activity_at session))
                (number-to-string (alist-get 'messages session))
                (number-to-string (alist-get 'tokens session))
                (rethread-plain (or (alist-get 'agent session) "-"))
                (rethread-plain (rethread-chat--short (or (alist-get 'first_message session) ""))))))

(defun rethread-list--time (time)
  "Return TIME, as a server writes it, for a person."
  (condition-case nil
      (format-time-string "%Y-%m-%d %H:%M"
                          (date-to-time (replace-regexp-in-string "\\.[0-9]+" "" time)))
    (error (rethread-plain time))))

(defun rethread-list--show-hits ()
  "Fill the list with what was found."
  (let ((found (rethread-http-request
                "GET" (format "/v1/search?limit=%d&q=%s" rethread-list--page
                              (url-hexify-string rethread-list--words)))))
    (setq tabulated-list-format [("Name" 28 t) ("Place" 6 nil :right-align t)
                                 ("What was said" 0 nil)]
          tabulated-list-sort-key nil
          tabulated-list-entries
          (mapcar (lambda (hit)
                    (list (list (cons 'id (alist-get 'session hit))
                                (cons 'name (alist-get 'name hit))
                                (cons 'seq (alist-get 'seq hit)))
                          (vector (rethread-plain (alist-get 'name hit))
                                  (number-to-string (alist-get 'seq hit))
                                  (rethread-plain
                                   (rethread-chat--short (alist-get 'snippet hit))))))
                  (alist-get 'hits found)))
    (tabulated-list-init-header)
    (unless tabulated-list-entries
      (message "Rethread: nobody said that; g after an empty search (s RET) shows all sessions"))))

(defun rethread-list--header ()
  "Return the header of the session at point, from the server."
  (let ((row (or (tabulated-list-get-id)
                 (user-error "Rethread: there is no session on this line"))))
    (alist-get 'session
               (rethread-http-request "GET" (concat "/v1/sessions/" (alist-get 'id row))))))

(defun rethread-list--known (header)
  "Return the session that HEADER is about: the one open here, or a new handle."
  (or (cl-loop for buffer in (buffer-list)
               for session = (buffer-local-value 'rethread-chat--session buffer)
               when (and session (equal (rethread-session--uuid session) (alist-get 'id header)))
               return session)
      (rethread-session-open header)))

(defun rethread-list-open ()
  "Continue the session at point: it becomes the current one, in its chat.
An archived session comes back."
  (interactive)
  (let* ((header (rethread-list--header))
         (session (rethread-list--known header)))
    (when (eq (alist-get 'archived header) t)
      (rethread-session-request session "POST" "/unarchive"))
    (rethread-session-switch session)))

(defun rethread-session-switch (session)
  "Make SESSION the current one, and show its chat."
  (setq rethread--current-session session)
  (pop-to-buffer (rethread-chat-buffer session)))

(defun rethread-list-resume ()
  "Start a new session from the summary of the one at point.
The model writes the summary, which may take a while; Emacs does not wait."
  (interactive)
  (let ((session (rethread-list--known (rethread-list--header))))
    (message "Rethread: summarizing %s" (rethread-plain (rethread-session-get-id session)))
    (rethread-http-start
     "POST" (rethread-session--path session "/resume") :body '((key . :null))
     :on-end
     (lambda (status body)
       (if (not (equal status 201))
           (message "Rethread: %s"
                    (rethread-plain (rethread-http-problem-text status body
                                                                (rethread-http-address))))
         (let ((child (rethread-session-open (alist-get 'session body))))
           (rethread-session-switch child)
           (message "Rethread: resumed as %s, from %s tokens to %s"
                    (rethread-plain (rethread-session-get-id child))
                    (alist-get 'before body) (alist-get 'after body))))))))

(defun rethread-list-fork (name)
  "Copy the session at point into a new one called NAME, and open that."
  (interactive (list (read-string "Name of the copy (empty for any): ")))
  (let* ((session (rethread-list--known (rethread-list--header)))
         (copy (rethread-session-request
                session "POST" "/fork"
                :body (if (string-blank-p name) (make-hash-table) `((name . ,name))))))
    (rethread-session-switch (rethread-session-open (alist-get 'session copy)))
    (message "Rethread: this is a copy; what you say here leaves the other as it is")))

(defun rethread-list-rename (name)
  "Call the session at point NAME."
  (interactive (list (read-string "New name: " (alist-get 'name (tabulated-list-get-id)))))
  (let* ((session (rethread-list--known (rethread-list--header)))
         (now (alist-get 'name (alist-get 'session
                                          (rethread-session-request
                                           session "PATCH" "" :body `((name . ,name)))))))
    (setf (rethread-session--id session) now)
    (rethread-list-refresh)
    (message "Rethread: it is %s now" (rethread-plain now))))

(defun rethread-list-archive ()
  "Put the session at point away, or bring it back if it was."
  (interactive)
  (let* ((header (rethread-list--header))
         (session (rethread-list--known header))
         (archived (eq (alist-get 'archived header) t)))
    (rethread-session-request session "POST" (if archived "/unarchive" "/archive"))
    (rethread-list-refresh)
    (message (if archived "Rethread: %s is back" "Rethread: %s is archived; t shows it, a brings it back")
             (rethread-plain (alist-get 'name header)))))

(defun rethread-list-search (words)
  "Show the places where all WORDS were said; without words, all sessions."
  (interactive (list (read-string "Search for words (empty for all sessions): ")))
  (setq rethread-list--words (if (string-blank-p words) nil words)
        tabulated-list-sort-key nil)
  (rethread-list-refresh)
  (goto-char (point-min)))

(defun rethread-list-toggle-all ()
  "Show archived sessions and all members of a chain, too, or no longer."
  (interactive)
  (setq rethread-list--all (not rethread-list--all))
  (rethread-list-refresh))

(defun rethread-list-more ()
  "Show more sessions."
  (interactive)
  (cl-incf rethread-list--wanted rethread-list--page)
  (rethread-list-refresh))

(provide 'rethread-list)
;;; rethread-list.el ends here
