;;; rethread-chat-test.el --- Turns, chats and the list of sessions  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: MIT OR Apache-2.0

;;; Commentary:

;; Asking, watching and coming back, with the offline model.

;;; Code:

(require 'rethread-test-setup)

(defun rethread-test-list-goto (text)
  "Go to the line of the list of sessions with TEXT on it."
  (goto-char (point-min))
  (search-forward text)
  (beginning-of-line))

(defmacro rethread-test-listing (&rest body)
  "Run BODY in the list of sessions."
  (declare (indent 0) (debug t))
  `(save-window-excursion
     (rethread-list-sessions)
     (unwind-protect (progn ,@body)
       (kill-buffer "*rethread sessions*"))))

(ert-deftest rethread-a-question-is-answered-in-the-chat-without-waiting ()
  (rethread-test-afresh
    (let* ((answers nil)
           (session (rethread-agent-process "where does the deploy key live?"
                                            (lambda (text) (push text answers)))))
      (should (rethread-session-busy-p session))
      (rethread-test-settled session)
      (should (= 1 (length answers)))
      (should (string-match-p "in the vault" (car answers)))
      (let ((chat (rethread-test-chat session)))
        (should (string-match-p "\\`You: where does the deploy key live\\?\n\nbuild: " chat))
        (should (string-match-p "→ grep " chat))
        (should (string-match-p "in the vault" chat)))
      ;; What was streamed and what is in the log are the same.
      (let ((streamed (rethread-test-chat session)))
        (with-current-buffer (rethread-chat-buffer session) (rethread-chat-refresh))
        (should (string-match-p (regexp-quote (car answers)) streamed))
        (should (string-match-p (regexp-quote (car answers)) (rethread-test-chat session)))))))

(ert-deftest rethread-an-answer-is-in-the-log-once-and-so-is-the-question ()
  (rethread-test-afresh
    (let ((session (rethread-test-settled (rethread-agent-process "hello"))))
      (should (equal (mapcar (lambda (message) (alist-get 'role message))
                             (rethread-session-get-messages session))
                     '(user assistant)))
      (rethread-test-settled (rethread-agent-process "thanks"))
      (should (= 4 (length (rethread-session-messages session)))))))

(ert-deftest rethread-an-empty-question-is-refused-and-nothing-is-stored ()
  (rethread-test-afresh
    (should (string-match-p "the prompt is empty"
                            (rethread-test-error 'user-error
                                                 (lambda () (rethread-agent-process " \n")))))
    (should (null (rethread-session--uuid (rethread-session-get))))))

(ert-deftest rethread-one-reply-at-a-time ()
  (rethread-test-afresh
    (let ((session (rethread-agent-process "hello")))
      (should (string-match-p "a reply is still arriving"
                              (rethread-test-error 'user-error
                                                   (lambda () (rethread-agent-process "hello?")))))
      (rethread-test-settled session)
      (should (= 2 (length (rethread-session-messages session)))))))

(ert-deftest rethread-two-buffers-ask-at-the-same-time ()
  (rethread-test-afresh
    (let ((one (rethread-session-create)) (two (rethread-session-create)))
      (rethread-agent-process "hello" nil nil one)
      (rethread-agent-process "where does the deploy key live?" nil nil two)
      (rethread-test-settled one)
      (rethread-test-settled two)
      (should-not (string-match-p "deploy" (rethread-test-chat one)))
      (should (string-match-p "in the vault" (rethread-test-chat two))))))

(ert-deftest rethread-what-is-said-is-inserted-as-plain-text ()
  (let* ((evil (concat "a\e[31mred\0\b" "\u202egnp.exe %s %n `(kill-emacs)'\n"
                       "Local Variables:\neval: (setq rethread-test-evil t)\nEnd:\n"))
         (session (rethread-session-create)))
    (rethread-session-add-message session 'user (propertize evil 'display "x" 'face 'bold))
    (rethread-session-add-message session 'assistant evil)
    (with-current-buffer (rethread-chat-buffer session)
      (let ((text (buffer-string)))
        (should (string-match-p "a\\\\u{1b}\\[31mred\\\\u{0}\\\\u{8}\\\\u{202e}gnp.exe %s %n" text))
        (should-not (string-match-p "[\0\b\e\u202e]" text))
        (goto-char (point-min))
        (search-forward "red")
        (should (null (text-properties-at (point)))))
      (hack-local-variables)
      (should-not (boundp 'rethread-test-evil)))
    (should-not (string-match-p "[\0\e\u202e]" (rethread-session-summarize session)))))

(ert-deftest rethread-plain-text-stays-as-it-is ()
  (dolist (text '("日本語と漢字" "👩‍🚀 é ß" "tab\tand\nline" "→ ✓ ✗" "\U0001F1E9\U0001F1EA"))
    (should (equal (rethread-plain text) text)))
  (let ((text (rethread-plain (propertize "a\eb" 'face 'bold 'display "x"))))
    (should (null (text-properties-at 0 text)))
    (should (null (text-properties-at (1- (length text)) text))))
  (should (equal (rethread-plain "\u009b31m \u200b\ufeff\r") "\\u{9b}31m \\u{200b}\\u{feff}\\u{d}")))

(ert-deftest rethread-a-chat-that-is-closed-does-not-disturb-the-reply ()
  (rethread-test-afresh
    (let ((session (rethread-agent-process "where does the deploy key live?")))
      (kill-buffer (rethread-chat-buffer session))
      ;; Opened again in the middle, it shows the question and continues.
      (rethread-chat-buffer session)
      (rethread-test-settled session)
      (kill-buffer (rethread-chat-buffer session))
      (should (string-match-p "vault" (rethread-test-chat session)))
      (let ((session (rethread-agent-process "thanks")))
        (kill-buffer (rethread-chat-buffer session))
        (rethread-test-settled session)
        (should (null (rethread-chat--buffer session)))))))

(ert-deftest rethread-a-reader-who-looks-elsewhere-is-not-moved ()
  (let ((session (rethread-session-create)))
    (dotimes (_ 30) (rethread-session-add-message session 'user "line\nline\nline"))
    (with-current-buffer (rethread-chat-buffer session)
      (goto-char 10)
      (rethread-test-settled (rethread-agent-process "hello" nil nil session))
      (should (= (point) 10))
      (goto-char (point-max))
      (rethread-test-settled (rethread-agent-process "hello" nil nil session))
      (should (= (point) (point-max))))))

(ert-deftest rethread-the-agent-is-kept-and-another-may-answer-once ()
  (rethread-test-afresh
    (let ((session (rethread-session-get)))
      (rethread-session-set-agent session "explore")
      (rethread-test-settled (rethread-agent-process "hello"))
      (rethread-test-settled (rethread-agent-process-with-agent "hello" "plan"))
      (should (equal "explore" (rethread-agent-info-name (rethread-session-get-agent session))))
      (let ((again (rethread-session-open
                    (alist-get 'session (rethread-session-request session "GET" "")))))
        (should (equal "explore" (rethread-agent-info-name (rethread-session-get-agent again))))
        (should (stringp (rethread-agent-info-description (rethread-session-get-agent again)))))
      (let ((chat (rethread-test-chat session)))
        (should (string-match-p "^explore: " chat))
        (should (string-match-p "^plan: " chat))))))

(ert-deftest rethread-a-compaction-has-a-receipt-and-can-be-undone ()
  (rethread-test-afresh
    (let ((session (rethread-session-get)) (asked nil) (said nil) (uuid nil) (before nil))
      (rethread-session-add-message session 'user "Where is the rate limiter?")
      (rethread-session-add-message session 'assistant "In src/limit.rs, a token bucket.")
      (setq uuid (rethread-session--uuid session)
            before (rethread-session-get-messages session))
      (cl-letf (((symbol-function 'y-or-n-p) (lambda (text) (setq asked text) t))
                ((symbol-function 'message)
                 (lambda (format &rest arguments)
                   (when format (push (apply #'format format arguments) said)))))
        (rethread-compact)
        (rethread-test-wait (not (equal uuid (rethread-session--uuid session)))))
      (should (string-match-p "Compact about [0-9]+ tokens to [0-9]+" asked))
      (should (cl-some (lambda (text)
                         (string-match-p "compacted from [0-9]+ tokens to [0-9]+, by extractive" text))
                       said))
      (should (string-match-p "CONTEXT RESTORATION"
                              (format "%S" (rethread-session-get-messages session))))
      (rethread-undo)
      (should (equal uuid (rethread-session--uuid session)))
      (should (equal before (rethread-session-get-messages session))))))

(ert-deftest rethread-a-compaction-of-nothing-says-so ()
  (rethread-test-afresh
    (should (string-match-p "this session has no messages yet"
                            (rethread-test-error 'user-error #'rethread-compact)))
    (should (string-match-p "nothing to undo"
                            (rethread-test-error 'user-error #'rethread-undo)))))

;;; The list

(ert-deftest rethread-the-list-opens-forks-renames-and-archives ()
  (rethread-test-afresh
    (let ((session (rethread-session-create :id "heron")))
      (rethread-session-add-message session 'user "what does a heron eat?")
      (rethread-session-add-message session 'assistant "Fish.")
      (rethread-test-listing
        (rethread-test-list-goto "heron")
        (should (looking-at-p ".*heron +[0-9]\\{4\\}-[0-9][0-9]-[0-9][0-9] [0-9:]+ +2 .*what does a heron eat\\?"))
        (rethread-list-open)
        (should (equal (rethread-session--uuid rethread--current-session)
                       (rethread-session--uuid session)))
        (should (string-match-p "Fish\\." (buffer-string)))
        (with-current-buffer "*rethread sessions*"
          (rethread-test-list-goto "heron")
          (rethread-list-fork "egret"))
        (should (equal (rethread-session-get-id rethread--current-session) "egret"))
        (should (equal (rethread-session-get-messages rethread--current-session)
                       (rethread-session-get-messages session)))
        (with-current-buffer "*rethread sessions*"
          (rethread-list-refresh)
          (rethread-test-list-goto "egret")
          (rethread-list-rename "bittern")
          (rethread-test-list-goto "bittern")
          (rethread-list-archive)
          (should-not (string-match-p "bittern" (buffer-string)))
          (rethread-list-toggle-all)
          (rethread-test-list-goto "bittern (archived)")
          (rethread-list-archive)
          (should-not (string-match-p "bittern (archived)" (buffer-string))))))))

(ert-deftest rethread-the-list-searches-and-sorts ()
  (dolist (pair '(("wren" . 1) ("robin" . 3)))
    (let ((session (rethread-session-create :id (car pair))))
      (dotimes (_ (cdr pair))
        (rethread-session-add-message session 'user (concat "the song of the " (car pair))))))
  (rethread-test-listing
    (setq tabulated-list-sort-key '("Messages" . nil))
    (rethread-list-refresh)
    (should (< (string-match "wren" (buffer-string)) (string-match "robin" (buffer-string))))
    (setq tabulated-list-sort-key '("Messages" . t))
    (rethread-list-refresh)
    (should (> (string-match "wren" (buffer-string)) (string-match "robin" (buffer-string))))
    (rethread-list-search "song wren")
    (should (string-match-p "wren .*the .*song.* of the .*wren" (buffer-string)))
    (should-not (string-match-p "robin" (buffer-string)))
    (rethread-test-list-goto "wren")
    (rethread-list-open)
    (should (equal (rethread-session-get-id rethread--current-session) "wren"))
    (with-current-buffer "*rethread sessions*"
      (rethread-list-search "")
      (should (string-match-p "robin" (buffer-string))))))

(ert-deftest rethread-the-list-resumes-from-a-summary ()
  (rethread-test-afresh
    (let ((session (rethread-session-create :id "plover")))
      (rethread-session-add-message session 'user "Where do plovers nest?")
      (rethread-session-add-message session 'assistant "On the beach.")
      (rethread-test-listing
        (rethread-test-list-goto "plover")
        (rethread-list-resume)
        (rethread-test-wait rethread--current-session)
        (should-not (equal (rethread-session--uuid rethread--current-session)
                           (rethread-session--uuid session)))
        (should (string-match-p "Where do plovers nest"
                                (rethread-test-chat rethread--current-session)))))))

(ert-deftest rethread-names-in-the-list-cannot-drive-it ()
  (let ((session (rethread-session-create :id "plain")))
    (rethread-session-add-message session 'user "\e]0;title\a\u202e (display \"x\")")
    (rethread-test-listing
      (should-not (string-match-p "[\e\a\u202e]" (buffer-string))))))

(ert-deftest rethread-a-line-without-a-session-says-so ()
  (rethread-test-listing
    (goto-char (point-max))
    (should (string-match-p "no session on this line"
                            (rethread-test-error 'user-error #'rethread-list-open)))))

(provide 'rethread-chat-test)
;;; rethread-chat-test.el ends here
