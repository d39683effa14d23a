;;; rethread-server.el --- Start and stop a rethread server  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: MIT OR Apache-2.0

;;; Commentary:

;; `rethread serve' as a process of this Emacs.  It is started when no server
;; answers at a local address, and stopped when Emacs exits; it finishes its
;; running turns first.  A server that someone else started is used, and
;; never stopped.

;;; Code:

(require 'rethread-http)
(require 'project)

(defcustom rethread-program "rethread"
  "The program that serves sessions, by name or with its whole path."
  :type 'string
  :group 'rethread)

(defcustom rethread-server-arguments nil
  "Further arguments for `rethread serve', such as (\"--model\" \"openai/gpt-5\").
Everybody on this machine can see them: secrets do not belong here.  The
server takes keys of models from the environment."
  :type '(repeat string)
  :group 'rethread)

(defcustom rethread-server-directory nil
  "Folder whose files the tools of the agents may read.
nil means the project, or else the folder, that is current when the
server is started."
  :type '(choice (const :tag "The project it is started in" nil) directory)
  :group 'rethread)

(defvar rethread-server--process nil
  "The server this Emacs started, or nil.")

(defvar rethread-server--said ""
  "The end of what the server wrote to its log.")

(defconst rethread-server--said-max 4000
  "Characters of its log that are kept: enough for the reason it ended.")

(defun rethread-project-root ()
  "Return the folder of the current project, or nil outside of one."
  (when-let ((project (and (not (file-remote-p default-directory))
                           (project-current))))
    (expand-file-name (if (fboundp 'project-root)
                          (project-root project)
                        (car (with-no-warnings (project-roots project)))))))

(defun rethread-server--folder ()
  "Return the folder the server is to work in."
  (expand-file-name
   (cond (rethread-server-directory)
         ((rethread-project-root))
         ((file-remote-p default-directory) "~/")
         (t default-directory))))

(defun rethread-server--command (listen)
  "Return the command that serves on the address LISTEN."
  (let ((program (or (executable-find rethread-program)
                     (rethread-http-fail 'rethread-error "there is no program `%s' on `exec-path'; build it with `cargo install --path crates/cli', or set `rethread-program' to where it is"
                                         rethread-program))))
    (append
     ;; An Emacs that exits hangs up on its children, and the server should
     ;; finish what it is doing: it is asked to stop instead.
     (unless (eq system-type 'windows-nt)
       (list "sh" "-c" "trap '' HUP; exec \"$@\"" "sh"))
     (list program "serve" "--json" "--listen" listen
           "--workspace" (directory-file-name (rethread-server--folder)))
     rethread-server-arguments)))

(defun rethread-server--reason ()
  "Return why the server ended, as it said itself."
  (let* ((line (car (last (split-string rethread-server--said "\n" t))))
         (parsed (ignore-errors (rethread-http-decode line)))
         (reason (and (consp parsed) (alist-get 'error parsed))))
    (cond ((null line) "it gave no reason")
          ((stringp reason) (format "%s (%s)" reason (or (alist-get 'hint parsed) "no hint")))
          (t line))))

(defun rethread-server-start ()
  "Start a rethread server for this Emacs, and return its address.
It listens where `rethread-server-url' says, or on a free port.  Usually
there is no need to call this: commands that need a server start it."
  (interactive)
  (let ((running (and (process-live-p rethread-server--process)
                      (process-get rethread-server--process 'address))))
    (cond ((and running (equal running (or rethread-server-url running)))
           (when (called-interactively-p 'interactive)
             (message "Rethread: the server of this Emacs is already running at %s" running))
           (unless rethread-server-url
             (setq rethread-http-own-address running))
           running)
          (t
           ;; Where the address was changed, nobody needs the other one.
           (rethread-server-stop)
           (let ((address (rethread-server--start)))
             (when (called-interactively-p 'interactive)
               (message "Rethread: the server listens at %s" address))
             address)))))

(defun rethread-server--start ()
  "Start a server, wait until it listens, and return its address."
  (let* ((listen (if rethread-server-url
                     (pcase-let ((`(,_ ,host ,port)
                                  (rethread-http--parts rethread-server-url)))
                       (format (if (string-match-p ":" host) "[%s]:%d" "%s:%d")
                               (if (equal host "localhost") "127.0.0.1" host) port))
                   "127.0.0.1:0"))
         (default-directory (rethread-server--folder))
         (said "")
         (errors (make-pipe-process :name "rethread-server-log" :noquery t :buffer nil
                                    :filter #'rethread-server--log
                                    :sentinel #'ignore))
         (process (make-process :name "rethread-server" :buffer nil :noquery t
                                :command (rethread-server--command listen)
                                :connection-type 'pipe :coding 'utf-8-unix
                                :stderr errors
                                :filter (lambda (_ text) (setq said (concat said text)))
                                :sentinel #'ignore))
         (deadline (+ (float-time) rethread-timeout)))
    (setq rethread-server--said ""
          rethread-server--process process)
    (while (and (process-live-p process) (not (string-match-p "\n" said))
                (< (float-time) deadline))
      (accept-process-output process 0.1))
    (cond
     ((string-match-p "\n" said)
      (let ((address (alist-get 'listening (rethread-http-decode
                                            (car (split-string said "\n"))))))
        (unless rethread-server-url
          (setq rethread-http-own-address address))
        (process-put process 'address (or rethread-server-url address))
        (or rethread-server-url address)))
     ((process-live-p process)
      (rethread-server-stop)
      (rethread-http-fail 'rethread-unreachable "`rethread serve' did not respond within %s s; run it in a terminal to see why"
                          rethread-timeout))
     (t
      ;; What it wrote before it ended may still be on its way.
      (accept-process-output errors 0.5)
      (setq rethread-server--process nil)
      (or (rethread-server--somebody-else)
          (rethread-http-fail 'rethread-unreachable "`rethread serve' did not start: %s; run it in a terminal, or change `rethread-server-url'"
                              (rethread-server--reason)))))))

(defun rethread-server--somebody-else ()
  "Return the address if someone else was quicker to start a server there."
  (when rethread-server-url
    (condition-case nil
        (progn (delete-process (rethread-http--connect rethread-server-url))
               rethread-server-url)
      (rethread-unreachable nil))))

(defun rethread-server--log (_process text)
  "Keep the end of TEXT, which the server wrote to its log."
  (let ((all (concat rethread-server--said text)))
    (setq rethread-server--said
          (substring all (max 0 (- (length all) rethread-server--said-max))))))

(defun rethread-server-stop ()
  "Ask the server that this Emacs started to stop; it finishes its work first.
A server that was started elsewhere is not touched."
  (interactive)
  (if (not (process-live-p rethread-server--process))
      (when (called-interactively-p 'interactive)
        (user-error "Rethread: this Emacs started no server"))
    (signal-process rethread-server--process 'TERM)
    (when (equal rethread-http-own-address (process-get rethread-server--process 'address))
      (setq rethread-http-own-address nil))
    (setq rethread-server--process nil)
    (when (called-interactively-p 'interactive)
      (message "Rethread: the server stops once its turns are finished"))))

(setq rethread-http-start-function #'rethread-server-start)
(add-hook 'kill-emacs-hook #'rethread-server-stop)

(provide 'rethread-server)
;;; rethread-server.el ends here
