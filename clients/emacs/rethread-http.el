;;; rethread-http.el --- Requests to a rethread server  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: MIT OR Apache-2.0

;;; Commentary:

;; One request, one connection: a small HTTP/1.1 client on top of Emacs's
;; network processes, for JSON and for streams of events.
;;
;; Why not url.el: it sends requests through a configured proxy, asks
;; questions of its own in the minibuffer (a 401 does), keeps cookies and
;; history, cannot hand over an answer while it is still arriving, and in
;; Emacs 27 refuses bodies that are not ASCII.  What is needed here is less
;; than what would have to be switched off there.
;;
;; What this file never does: show a token, put one into the arguments of a
;; process, or send one over a connection that others can read.

;;; Code:

(require 'cl-lib)
(require 'json)
(require 'subr-x)

(declare-function auth-source-search "auth-source")
(declare-function auth-source-forget+ "auth-source")

(defgroup rethread nil
  "Sessions with AI agents, kept by a rethread server."
  :group 'tools
  :prefix "rethread-"
  :link '(url-link "https://github.com/rethread/rethread"))

(defcustom rethread-server-url "http://127.0.0.1:8000"
  "Where the rethread server is.
An address of this machine is also where a server is started when none
runs there.  nil means a server of this Emacs's own, on a free port.

A server on another machine wants a token (see `rethread-token-function'),
and a token is sent over https only."
  :type '(choice (string :tag "Address")
                 (const :tag "A server of this Emacs's own" nil)))

(defcustom rethread-token-function #'rethread-token-from-auth-source
  "Function that gives the token for a server, or nil when there is none.
It is called with the host and the port of the server, when the server
asks for a token.  The default looks into `auth-sources'."
  :type 'function)

(defcustom rethread-timeout 30
  "Seconds to wait for the answer to a short request.
Replies of a model are not waited for: they arrive by themselves."
  :type 'number)

;; `user-error', because none of these is a fault of the program and wants a
;; debugger; `file-error', because Emacs shows the text of those as it is, and
;; that of any other error in quotes.
(define-error 'rethread-error "Rethread" '(user-error file-error))
(define-error 'rethread-unreachable "Rethread" 'rethread-error)
(define-error 'rethread-problem "Rethread" 'rethread-error)
(define-error 'rethread-not-found "Rethread" 'rethread-problem)

(defun rethread-http-fail (kind format &rest arguments)
  "Signal an error of KIND: `rethread-error', or one that is made from it.
FORMAT and ARGUMENTS say what happened and what to do about it."
  (signal kind (list (concat "Rethread: " (apply #'format format arguments)))))

(defvar rethread-http-start-function nil
  "Function that starts a server where none answers, or nil.
It returns the address of the server.")

(defvar rethread-http-own-address nil
  "Address of the server this Emacs started on a free port, or nil.")

(defvar rethread-http--tokens nil
  "Tokens that servers asked for: an alist from an address to a string.")

(defvar rethread-http--native (and (fboundp 'json-parse-string)
                                   (fboundp 'json-serialize))
  "Whether Emacs reads and writes JSON by itself; otherwise json.el does.")

(declare-function json-parse-string "json.c")
(declare-function json-serialize "json.c")

;;; JSON

(defun rethread-http-decode (text)
  "Return the JSON in the string TEXT as Lisp.
Objects are alists, arrays are lists, null is nil and false is `:false'."
  (if (and rethread-http--native
           ;; The parser of Emacs 27 and 28 refuses NUL, and people paste all sorts of things.
           (not (string-match-p "\\\\u0000" text)))
      (json-parse-string text :object-type 'alist :array-type 'list
                         :null-object nil :false-object :false)
    (let ((json-object-type 'alist) (json-array-type 'list)
          (json-key-type 'symbol) (json-null nil) (json-false :false))
      (json-read-from-string text))))

(defconst rethread-http--not-text
  (format "[%c-%c%c-%c]" #xd800 #xdfff #x3fff80 #x3fffff)
  "Matches what no UTF-8 can hold: half characters and raw bytes.")

(defun rethread-http-text (string)
  "Return STRING as text that can be sent: invalid characters become U+FFFD."
  (let ((text (if (multibyte-string-p string)
                  (substring-no-properties string)
                (decode-coding-string string 'utf-8 t))))
    (replace-regexp-in-string rethread-http--not-text "\ufffd" text t t)))

(defun rethread-http--jsonable (value)
  "Return VALUE in a form that both encoders of JSON take.
A list of pairs whose keys are symbols is an object, any other list an
array, nil an empty array; a hash table is an object."
  (cond ((stringp value) (rethread-http-text value))
        ((vectorp value) (vconcat (mapcar #'rethread-http--jsonable value)))
        ((hash-table-p value) value)
        ((null value) [])
        ((and (consp value) (consp (car value)) (symbolp (caar value)))
         (mapcar (lambda (pair)
                   (cons (car pair)
                         (if (and (eq (car pair) 'input) (null (cdr pair)))
                             (make-hash-table)
                           (rethread-http--jsonable (cdr pair)))))
                 value))
        ((consp value) (vconcat (mapcar #'rethread-http--jsonable value)))
        ((memq value '(t :null :false)) value)
        ((eq value :json-false) :false)
        ((numberp value) value)
        ((symbolp value) (symbol-name value))
        (t (rethread-http-fail 'rethread-error "%S cannot be said in JSON; use strings, numbers and lists"
                               (type-of value)))))

(defun rethread-http-encode (value)
  "Return the Lisp VALUE as JSON, in UTF-8.
See `rethread-http--jsonable' for what becomes of lists."
  (let ((value (rethread-http--jsonable value)))
    (if rethread-http--native
        (let ((text (json-serialize value)))
          (if (multibyte-string-p text) (encode-coding-string text 'utf-8 t) text))
      (let ((json-null :null) (json-false :false))
        (encode-coding-string (json-encode value) 'utf-8 t)))))

;;; Addresses and tokens

(defun rethread-http-address ()
  "Return the address requests go to, or nil if there is no server yet."
  (or rethread-server-url rethread-http-own-address))

(defun rethread-http--parts (address)
  "Return the parts of ADDRESS: whether it is TLS, its host and its port."
  (unless (and (stringp address)
               (string-match "\\`\\(https?\\)://\\(\\[[0-9a-fA-F:]+]\\|[^] \t\n/@?#:[]+\\)\\(?::\\([0-9]+\\)\\)?/?\\'"
                             address))
    (rethread-http-fail 'rethread-error "%S is not an address such as http://127.0.0.1:8000; correct `rethread-server-url'"
                        address))
  (let ((tls (equal (match-string 1 address) "https"))
        (host (match-string 2 address))
        (port (match-string 3 address)))
    (list tls (string-trim host "\\[" "]")
          (if port (string-to-number port) (if tls 443 80)))))

(defun rethread-http-local-p (address)
  "Return non-nil if ADDRESS is one of this machine."
  (let ((host (nth 1 (rethread-http--parts address))))
    (or (member host '("localhost" "::1"))
        (string-match-p "\\`127\\.[0-9.]+\\'" host))))

(defun rethread-token-from-auth-source (host port)
  "Return the token for the server at HOST and PORT from `auth-sources'.
A line such as this one in ~/.authinfo.gpg holds it:

  machine HOST port PORT login rethread password rt_…"
  (require 'auth-source)
  (let* ((found (car (auth-source-search :host host :port (number-to-string port)
                                         :user "rethread" :max 1)))
         (secret (plist-get found :secret)))
    (if (functionp secret) (funcall secret) secret)))

(defun rethread-http--find-token (address)
  "Look for the token of the server at ADDRESS; return and remember it."
  (pcase-let* ((`(,tls ,host ,port) (rethread-http--parts address))
               (token (funcall rethread-token-function host port)))
    (when (and token (not tls) (not (rethread-http-local-p address)))
      (rethread-http-fail 'rethread-error "the token for %s is not sent over plain http, where others can read it; use https, or an ssh tunnel to the server"
                          address))
    (when token
      (unless (string-match-p "\\`[!-~]+\\'" token)
        (rethread-http-fail 'rethread-error "what is stored as the token for %s is not a token; store what `rethread token create' printed"
                            address))
      (setf (alist-get address rethread-http--tokens nil nil #'equal) token))
    token))

(defun rethread-http--forget-token (address)
  "Forget the token of the server at ADDRESS, so that it is looked up again."
  (setf (alist-get address rethread-http--tokens nil t #'equal) nil)
  (when (fboundp 'auth-source-forget+)
    (auth-source-forget+ :host (nth 1 (rethread-http--parts address)))))

;;; One request

(cl-defstruct (rethread-http--call (:constructor rethread-http--call-make) (:copier nil))
  "A request that is on its way."
  process address
  (input "")                   ; bytes that are not understood yet
  status headers               ; of the answer, once its head has arrived
  left                         ; bytes, `chunked', or `close' for all there are
  pieces                       ; of the body, or of an unfinished line; newest first
  on-event on-end ended)

(defconst rethread-http--head-max 65536
  "Bytes the head of an answer may have.  A rethread server sends a few hundred.")

(defun rethread-http--connect (address)
  "Open a connection to ADDRESS; signal `rethread-unreachable' if nobody is there."
  (pcase-let ((`(,tls ,host ,port) (rethread-http--parts address)))
    (condition-case failure
        (if tls
            ;; Emacs checks the certificate, and asks where it is in doubt; nil is a no.
            (or (open-network-stream "rethread" nil host port :type 'tls :coding 'binary)
                (error "Its certificate is not trusted"))
          (make-network-process :name "rethread" :host host :service port
                                :coding 'binary :noquery t))
      (error
       (rethread-http-fail 'rethread-unreachable
                           (if tls "there is no safe connection to %s (%s)" "nothing answers at %s (%s)")
                           address (downcase (error-message-string failure)))))))

(defun rethread-http--reach (address)
  "Open a connection to ADDRESS, starting a server where that helps.
Return the process and the address it leads to."
  (condition-case failure
      (if address
          (cons (rethread-http--connect address) address)
        (rethread-http-fail 'rethread-unreachable "no server was started yet"))
    (rethread-unreachable
     (if (and rethread-http-start-function
              (or (null rethread-server-url) (rethread-http-local-p address)))
         (let ((started (funcall rethread-http-start-function)))
           (cons (rethread-http--connect started) started))
       (rethread-http-fail 'rethread-unreachable "%s; see that `rethread serve' runs there, or customize `rethread-server-url'"
                           (string-remove-prefix "Rethread: " (cadr failure)))))))

(cl-defun rethread-http-start (method path &key body headers on-event on-end)
  "Send a request and return without waiting for its answer.
METHOD and PATH say what is asked, BODY is Lisp that is sent as JSON (see
`rethread-http-encode'), HEADERS are pairs of strings.

If the answer is a stream, ON-EVENT is called with each event, as Lisp,
while they arrive.  In the end ON-END is called once, with the status and
the body, which is Lisp where it is JSON.  The status is nil if the
connection broke off before the answer was complete.

The value is for `rethread-http-stop'."
  (pcase-let* ((`(,process . ,address) (rethread-http--reach (rethread-http-address)))
               (`(,_ ,host ,port) (rethread-http--parts address))
               (token (alist-get address rethread-http--tokens nil nil #'equal))
               (json (and body (rethread-http-encode body)))
               (call (rethread-http--call-make :process process :address address
                                               :on-event on-event :on-end on-end)))
    (set-process-query-on-exit-flag process nil)
    (set-process-filter process (lambda (_ bytes) (rethread-http--take call bytes)))
    (set-process-sentinel process (lambda (_ _) (rethread-http--closed call)))
    (condition-case nil
        (process-send-string
         process
         (concat (format "%s %s HTTP/1.1\r\nHost: %s:%d\r\nConnection: close\r\nAccept: application/json, text/event-stream\r\n"
                         method path (if (string-match-p ":" host) (concat "[" host "]") host) port)
                 (mapconcat (lambda (header) (format "%s: %s\r\n" (car header) (cdr header)))
                            headers "")
                 (and token (concat "Authorization: Bearer " token "\r\n"))
                 (and json (format "Content-Type: application/json\r\nContent-Length: %d\r\n"
                                   (string-bytes json)))
                 "\r\n" json))
      ;; A server that refuses early closes before it has read everything;
      ;; its answer is there all the same, and the sentinel sees the end.
      (error nil))
    call))

(defun rethread-http-stop (call)
  "Give up on CALL; its end is not reported."
  (setf (rethread-http--call-ended call) t)
  (delete-process (rethread-http--call-process call)))

(defun rethread-http--take (call bytes)
  "Take in BYTES of the answer to CALL."
  (unless (rethread-http--call-ended call)
    (if (rethread-http--call-status call)
        (rethread-http--take-body call bytes)
      (let* ((input (concat (rethread-http--call-input call) bytes))
             (end (string-match "\r\n\r\n" input)))
        (setf (rethread-http--call-input call) input)
        (cond (end (setf (rethread-http--call-input call) "")
                   (if (not (rethread-http--take-head call (substring input 0 end)))
                       (rethread-http--end call nil)
                     (rethread-http--take-body call (substring input (+ end 4)))))
              ((> (length input) rethread-http--head-max)
               (rethread-http--end call nil)))))))

(defun rethread-http--take-head (call head)
  "Read the HEAD of the answer to CALL; return nil if it is none."
  (let ((lines (split-string head "\r\n")))
    (when (string-match "\\`HTTP/1\\.[01] \\([0-9][0-9][0-9]\\)" (car lines))
      (setf (rethread-http--call-status call) (string-to-number (match-string 1 (car lines)))
            (rethread-http--call-headers call)
            (delq nil (mapcar (lambda (line)
                                (when (string-match "\\`\\([^:]+\\):[ \t]*\\(.*?\\)[ \t]*\\'" line)
                                  (cons (downcase (match-string 1 line)) (match-string 2 line))))
                              (cdr lines))))
      (let ((header (lambda (name) (cdr (assoc name (rethread-http--call-headers call))))))
        (setf (rethread-http--call-left call)
              (cond ((memq (rethread-http--call-status call) '(204 304)) 0)
                    ((equal (funcall header "transfer-encoding") "chunked") 'chunked)
                    ((funcall header "content-length")
                     (string-to-number (funcall header "content-length")))
                    (t 'close))))
      t)))

(defun rethread-http--take-body (call bytes)
  "Take in BYTES of the body of the answer to CALL."
  (pcase (rethread-http--call-left call)
    ('chunked (rethread-http--take-chunks call bytes))
    ('close (rethread-http--data call bytes))
    (left (let ((taken (min left (length bytes))))
            (rethread-http--data call (substring bytes 0 taken))
            (setf (rethread-http--call-left call) (- left taken))
            (when (= left taken)
              (rethread-http--end call t))))))

(defun rethread-http--take-chunks (call bytes)
  "Take in BYTES of a body of CALL that comes in chunks."
  (let ((input (concat (rethread-http--call-input call) bytes))
        (at 0) (more t))
    (while (and more (not (rethread-http--call-ended call)))
      (if (not (string-match "\\([0-9a-fA-F]+\\)[^\r\n]*\r\n" input at))
          (setq more nil)
        (let* ((size (string-to-number (match-string 1 input) 16))
               (start (match-end 0))
               (end (+ start size)))
          (cond ((= size 0) (rethread-http--end call t) (setq more nil))
                ((< (length input) (+ end 2)) (setq more nil))
                (t (rethread-http--data call (substring input start end))
                   (setq at (+ end 2)))))))
    (setf (rethread-http--call-input call) (substring input at))))

(defun rethread-http--stream-p (call)
  "Return non-nil if the answer to CALL is a stream of events."
  (string-prefix-p "text/event-stream"
                   (or (cdr (assoc "content-type" (rethread-http--call-headers call))) "")))

(defun rethread-http--data (call bytes)
  "Take in BYTES of the body of CALL, without its wrapping."
  (push bytes (rethread-http--call-pieces call))
  (when (and (rethread-http--stream-p call) (string-match-p "\n" bytes))
    (let* ((lines (split-string (apply #'concat (nreverse (rethread-http--call-pieces call)))
                                "\n"))
           (rest (car (last lines))))
      (setf (rethread-http--call-pieces call) (list rest))
      (dolist (line (butlast lines))
        (when (and (string-prefix-p "data:" line) (not (rethread-http--call-ended call)))
          (rethread-http--notify (rethread-http--call-on-event call)
                               (rethread-http-decode
                                (decode-coding-string (substring line 5) 'utf-8 t))))))))

(defun rethread-http--notify (function &rest arguments)
  "Call FUNCTION with ARGUMENTS; an error in it does not disturb the connection."
  (when function
    (condition-case-unless-debug failure
        (apply function arguments)
      (error (message "%s" (error-message-string failure))))))

(defun rethread-http--end (call whole)
  "Take note that the answer to CALL is over; WHOLE if all of it is there."
  (unless (rethread-http--call-ended call)
    (setf (rethread-http--call-ended call) t)
    (delete-process (rethread-http--call-process call))
    (let* ((bytes (apply #'concat (reverse (rethread-http--call-pieces call))))
           (text (decode-coding-string bytes 'utf-8 t))
           (kind (or (cdr (assoc "content-type" (rethread-http--call-headers call))) ""))
           (body (if (and whole (string-match-p "\\`application/\\(?:problem\\+\\)?json" kind))
                     (condition-case nil
                         (rethread-http-decode text)
                       (error (setq whole nil) text))
                   text)))
      (rethread-http--notify (rethread-http--call-on-end call)
                           (and whole (rethread-http--call-status call)) body))))

(defun rethread-http--closed (call)
  "The connection of CALL was closed."
  (unless (process-live-p (rethread-http--call-process call))
    (rethread-http--end call (eq (rethread-http--call-left call) 'close))))

;;; Requests that are waited for

(defun rethread-http--once (method path body headers)
  "Send METHOD, PATH, BODY and HEADERS and wait; return (STATUS BODY ADDRESS)."
  (let* ((answer nil)
         (call (rethread-http-start method path :body body :headers headers
                                    :on-end (lambda (status body)
                                              (setq answer (list status body)))))
         (address (rethread-http--call-address call))
         (deadline (+ (float-time) rethread-timeout)))
    ;; C-g leaves no open connection.
    (unwind-protect
        (while (and (null answer) (< (float-time) deadline))
          (accept-process-output (rethread-http--call-process call) 0.2))
      (unless answer (rethread-http-stop call)))
    (unless answer
      (rethread-http-fail 'rethread-unreachable "no answer from %s within %s s; look whether it has too much to do, or raise `rethread-timeout'"
                          address rethread-timeout))
    (append answer (list address))))

(cl-defun rethread-http-request (method path &key body headers repeatable)
  "Send a request, wait for its answer and return its body as Lisp.
METHOD, PATH, BODY and HEADERS are those of `rethread-http-start'.  A
request that is REPEATABLE is sent again if the connection breaks off.

An answer that is an error is signalled as `rethread-problem', or as
`rethread-not-found', with a text that says what to do."
  (let ((tries (if repeatable 2 1))
        (asked nil)
        (result nil))
    (while (null result)
      (pcase-let ((`(,status ,value ,address)
                   (rethread-http--once method path body headers)))
        (cond ((null status)
               (when (= (cl-decf tries) 0)
                 (rethread-http-fail 'rethread-unreachable "%s broke off before it answered; try again, and if that fails too look at it with `rethread doctor'"
                                     address)))
              ((< status 300) (setq result (list value)))
              ((and (= status 401) (not asked)
                    (null (alist-get address rethread-http--tokens nil nil #'equal)))
               ;; A server says when it wants a token: nobody is asked for a
               ;; passphrase before.
               (setq asked t)
               (unless (rethread-http--find-token address)
                 (rethread-http-signal status value address)))
              (t (rethread-http-signal status value address)))))
    (car result)))

(defun rethread-http-signal (status value address)
  "Signal the error that ADDRESS answered with: STATUS, and VALUE as its body."
  (rethread-http-fail (if (and (equal status 404) (consp value)) 'rethread-not-found 'rethread-problem)
                      "%s" (rethread-http-problem-text status value address)))

(defconst rethread-http--hints
  '(("/problems/not-found"
     . "it may have been deleted; M-x rethread-list-sessions shows what there is")
    ("/problems/held"
     . "wait until that turn is over, or stop it with M-x rethread-cancel")
    ("/problems/conflict" . "look at what was written since, then try again")
    ("/problems/nothing-to-do" . "M-x rethread-show-session shows what was said")
    ("/problems/content-type" . "this is a fault of rethread.el: please report it")
    ("/problems/broken" . "`rethread doctor' checks the store"))
  "What to do next, by type of problem, where it differs from the server's advice.")

(defun rethread-http-problem-text (status value address)
  "Return what STATUS and VALUE, answered by ADDRESS, mean for a person."
  (let ((type (and (consp value) (alist-get 'type value)))
        (detail (and (consp value) (alist-get 'detail value))))
    (cond ((and (equal status 401) (alist-get address rethread-http--tokens nil nil #'equal))
           (rethread-http--forget-token address)
           (format "%s does not know this token; make one there with `rethread token create NAME', and store it as `rethread-token-function' says"
                   address))
          ((equal status 401)
           (format "%s asks for a token; make one with `rethread token create NAME', and put `machine %s port %d login rethread password TOKEN' into ~/.authinfo.gpg"
                   address (nth 1 (rethread-http--parts address))
                   (nth 2 (rethread-http--parts address))))
          ((and (stringp type) (stringp detail))
           (format "%s; %s" detail
                   (or (cdr (assoc type rethread-http--hints)) (alist-get 'hint value))))
          (t (format "what answers at %s is not a rethread server (status %s); set `rethread-server-url' to another port, or stop that program"
                     address status)))))

(provide 'rethread-http)
;;; rethread-http.el ends here
