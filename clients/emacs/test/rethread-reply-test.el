;;; rethread-reply-test.el --- Replies that do not come to their end  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: MIT OR Apache-2.0

;;; Commentary:

;; The model here says half of something and then waits.  What starts these
;; tests provides it, with such an answer for the first question of each.

;;; Code:

(require 'rethread-test-setup)

(ert-deftest rethread-a-reply-is-stopped-with-its-beginning-kept ()
  (rethread-test-afresh
    (let ((session (rethread-agent-process "tell me a story")))
      (rethread-test-wait (string-match-p "Once upon" (rethread-test-chat session)))
      ;; Emacs is free meanwhile, and C-g means this reply here and in the chat.
      (rethread-mode 1)
      (should (eq (key-binding (kbd "C-g")) 'rethread-cancel))
      (with-temp-buffer
        (should (eq (key-binding (kbd "C-g")) 'keyboard-quit)))
      (call-interactively (key-binding (kbd "C-g")))
      (rethread-test-settled session)
      (should (eq (key-binding (kbd "C-g")) 'keyboard-quit))
      (rethread-mode -1)
      (should (string-match-p "Once upon.*\n\\[stopped; the part that arrived is kept\\]"
                              (rethread-test-chat session)))
      (let ((kept (alist-get 'content (car (rethread-session-messages session)))))
        (should (string-prefix-p "Once upon" kept))
        (should-not (string-match-p "ever after" kept)))
      ;; The session is whole: it continues.
      (rethread-test-settled (rethread-agent-process "go on"))
      (should (string-match-p "The end\\." (rethread-test-chat session)))
      (should (= 4 (length (rethread-session-messages session)))))))

(ert-deftest rethread-a-server-that-goes-away-in-a-reply-is-started-again ()
  (rethread-test-afresh
    (let ((session (rethread-agent-process "tell me a story")) (said nil))
      (rethread-test-wait (string-match-p "Once upon" (rethread-test-chat session)))
      (cl-letf (((symbol-function 'message)
                 (lambda (format &rest arguments)
                   (when format (push (apply #'format format arguments) said)))))
        (signal-process rethread-server--process 'KILL)
        (rethread-test-settled session))
      (should (cl-some (lambda (text)
                         (string-match-p "was lost during the reply; .* ask again" text))
                       said))
      (should (string-match-p "was lost during the reply" (rethread-test-chat session)))
      ;; The question is in the log, and the next one finds a server.
      (rethread-test-settled (rethread-agent-process "go on"))
      (should (string-match-p "The end\\." (rethread-test-chat session)))
      (should (equal (funcall (rethread-test-said 'user) (rethread-session-get-messages session))
                     '("tell me a story" "go on"))))))

(ert-deftest rethread-a-reply-that-breaks-off-is-not-run-together-with-the-next ()
  (rethread-test-afresh
    (let ((session (rethread-agent-process "tell me a story")))
      (rethread-test-settled session)
      (should (string-match-p
               "Once upon[^\n]*\n\\[the reply broke off here; retrying\\]\nThe end\\.\n"
               (rethread-test-chat session)))
      (should (= 2 (length (split-string (rethread-test-chat session) "The end")))))))

(ert-deftest rethread-an-emacs-that-exits-lets-the-reply-end ()
  (rethread-test-afresh
    (let ((session (rethread-agent-process "tell me a story")))
      (rethread-test-wait (string-match-p "Once upon" (rethread-test-chat session)))
      (should (rethread-session-busy-p session)))))

(ert-deftest rethread-a-model-that-fails-leaves-the-question-in-the-log ()
  (rethread-test-afresh
    (let ((session (rethread-test-settled (rethread-agent-process "tell me a story"))))
      (should (string-match-p "\\[.*; your message is kept; ask again to continue\\]"
                              (rethread-test-chat session)))
      (should (equal (rethread-session-get-messages session)
                     '(((role . user) (content . "tell me a story")))))
      (rethread-test-settled (rethread-agent-process "go on"))
      (should (string-match-p "The end\\." (rethread-test-chat session))))))

(ert-deftest rethread-two-emacsen-share-a-session ()
  (rethread-test-afresh
    (let* ((session (rethread-agent-process "tell me a story"))
           (other (rethread-session-open
                   (alist-get 'session (rethread-session-request session "GET" "")))))
      (rethread-test-wait (string-match-p "Once upon" (rethread-test-chat session)))
      ;; While one is in a turn, the other gets an error, and nothing is mixed up.
      (should (string-match-p "M-x rethread-cancel"
                              (rethread-test-error 'rethread-problem
                                                   (lambda ()
                                                     (rethread-session-add-message
                                                      other 'user "me too")))))
      (rethread-cancel)
      (rethread-test-settled session)
      (rethread-session-add-message other 'user "me too")
      (should (equal (funcall (rethread-test-said 'user) (rethread-session-get-messages session))
                     '("tell me a story" "me too"))))))

(ert-deftest rethread-a-question-that-waits-is-stopped-and-the-turn-before-it-is-not ()
  (rethread-test-afresh
    (let* ((session (rethread-agent-process "tell me a story"))
           (other (rethread-session-open
                   (alist-get 'session (rethread-session-request session "GET" "")))))
      (rethread-test-wait (string-match-p "Once upon" (rethread-test-chat session)))
      (rethread-agent-process "me too" nil nil other)
      (with-current-buffer (rethread-chat-buffer other)
        (rethread-cancel))
      (rethread-test-settled other)
      (should (rethread-session-busy-p session))
      (with-current-buffer (rethread-chat-buffer session)
        (rethread-cancel))
      (rethread-test-settled session)
      (should (equal (funcall (rethread-test-said 'user) (rethread-session-get-messages session))
                     '("tell me a story"))))))

(provide 'rethread-reply-test)
;;; rethread-reply-test.el ends here
