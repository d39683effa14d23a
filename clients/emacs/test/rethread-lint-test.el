;;; rethread-lint-test.el --- The files themselves  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: MIT OR Apache-2.0

;;; Commentary:

;; They compile without warnings, and neither checkdoc nor package-lint has
;; anything to say about them.  package-lint is not part of Emacs; Debian has
;; it as elpa-package-lint.  Without it the test fails, and says so.

;;; Code:

(require 'ert)
(require 'checkdoc)
(require 'bytecomp)

(defconst rethread-lint-folder
  (file-name-directory (locate-library "rethread.el" t))
  "Where the files are.")

(defconst rethread-lint-files
  (directory-files rethread-lint-folder t "\\.el\\'")
  "The files.")

(ert-deftest rethread-lint-there-is-something-to-look-at ()
  (should (>= (length rethread-lint-files) 8)))

(ert-deftest rethread-lint-every-file-compiles-without-a-warning ()
  (let* ((folder (make-temp-file "rethread-lint-" t))
         (byte-compile-dest-file-function
          (lambda (file) (expand-file-name (concat (file-name-nondirectory file) "c") folder)))
         (byte-compile-error-on-warn t)
         (load-path (cons rethread-lint-folder load-path)))
    (unwind-protect
        (dolist (file rethread-lint-files)
          (should (eq t (byte-compile-file file))))
      (delete-directory folder t))))

(ert-deftest rethread-lint-checkdoc-has-nothing-to-say ()
  (let* ((said nil)
         (checkdoc-create-error-function
          (lambda (text start &rest _)
            (push (format "%s:%s: %s" (file-name-nondirectory buffer-file-name)
                          (and start (line-number-at-pos start)) text)
                  said)
            nil)))
    (dolist (file rethread-lint-files)
      (with-current-buffer (find-file-noselect file)
        (checkdoc-current-buffer t)))
    (should (equal said nil))))

(ert-deftest rethread-lint-every-public-name-teaches-something ()
  (require 'magent-compat)
  (mapatoms
   (lambda (symbol)
     (when (and (fboundp symbol) (string-match-p "\\`rethread-[^-]*\\(-[^-]+\\)*\\'" (symbol-name symbol))
                (not (string-match-p "--\\|-mode-\\(hook\\|map\\)\\|lint\\|-p\\'" (symbol-name symbol))))
       (unless (documentation symbol)
         (ert-fail (list symbol "has no documentation")))))))

(ert-deftest rethread-lint-package-lint-has-nothing-to-say ()
  (let ((load-path (append (file-expand-wildcards "/usr/share/emacs/site-lisp/elpa/*")
                           (file-expand-wildcards "/usr/share/emacs/site-lisp/elpa-src/*")
                           load-path)))
    (unless (require 'package-lint nil t)
      (ert-fail "package-lint is not installed: apt-get install elpa-package-lint")))
  (let ((package-lint-main-file (expand-file-name "rethread.el" rethread-lint-folder))
        (said nil))
    (dolist (file rethread-lint-files)
      (with-current-buffer (find-file-noselect file)
        (dolist (found (funcall 'package-lint-buffer))
          (push (cons (file-name-nondirectory file) found) said))))
    (should (equal said nil))
    ;; It sees what it should: a name without the prefix.
    (with-temp-buffer
      (setq buffer-file-name (expand-file-name "rethread-bad.el" rethread-lint-folder))
      (insert ";;; rethread-bad.el --- Bad  -*- lexical-binding: t; -*-\n(defun other-name () nil)\n")
      (emacs-lisp-mode)
      (should (funcall 'package-lint-buffer))
      (set-buffer-modified-p nil)
      (setq buffer-file-name nil))))

(defvar package-lint-main-file)

(provide 'rethread-lint-test)
;;; rethread-lint-test.el ends here
