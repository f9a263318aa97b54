"""Errors of composing: sources, parts, contexts and their files.

    InklingError (engine.errors)
    ├── AppStartError               the app cannot listen where it was asked to
    ├── LabStartError               JupyterLab did not come up (reason and log's place in the message)
    ├── BenchError                  a measurement that would say nothing, or cannot be written
    ├── EvalRunError                an evaluation's folder, rows or files that cannot be used
    └── ContextError
        ├── SourceError             a file or object that cannot become a part (``path`` in detail)
        │   ├── SourceMissing       no such file, or not a file
        │   ├── SourceUnreadable    empty, corrupt, or not what its name says
        │   ├── SourceEncrypted     a password is needed
        │   └── SourceUnknown       no reader for this kind of file
        ├── EffortError             not a thinking effort Inkling knows
        ├── MessageError            a role, tool or order of messages the chat format has no words for
        ├── MediaTooLarge           an image or clip over the engine's per-item limit
        ├── FragmentError           no kept part of this hash, or several
        ├── ReadingCancelled        the caller stopped reading; nothing was added
        ├── ContextFileError        a saved context that cannot be opened
        ├── CaptureFileError        a capture that cannot be written or opened
        ├── ReportError             a report that has nothing to show or cannot be written
        └── SelectionError          a layer, expert, token, span or array that a capture does not have

Raised when a part is added, before anything is rendered or sent; the last three when a capture is opened, looked into or reported.
"""

from __future__ import annotations

from engine.errors import InklingError


class ContextError(InklingError):
    """Something about a context or one of its parts."""

    code = "context"
    http_status = 400


class SourceError(ContextError):
    """A file or object that cannot become a part."""

    code = "source"


class SourceMissing(SourceError):
    """No such file, or the path is not a file."""

    code = "source-missing"


class SourceUnreadable(SourceError):
    """The file is empty, corrupt, or not what its name says."""

    code = "source-unreadable"


class SourceEncrypted(SourceError):
    """The file is protected by a password."""

    code = "source-encrypted"


class SourceUnknown(SourceError):
    """No reader for this kind of file."""

    code = "source-unknown"


class EffortError(ContextError):
    """Not a thinking effort that Inkling knows."""

    code = "effort"


class MessageError(ContextError):
    """A role, tool or order of messages that the chat format has no words for."""

    code = "message"


class MediaTooLarge(ContextError):
    """An image or a clip over the engine's per-item limit."""

    code = "media-too-large"


class FragmentError(ContextError):
    """No kept part has this hash, or several begin with it."""

    code = "fragment"


class ReadingCancelled(ContextError):
    """The caller's progress function answered False: reading stopped and nothing was added."""

    code = "reading-cancelled"


class ContextFileError(ContextError):
    """A saved context or conversation that cannot be written or opened; the message says what was lost."""

    code = "context-file"


class CaptureFileError(ContextError):
    """A capture that cannot be written or opened; the message says what is wrong with it."""

    code = "capture-file"


class SelectionError(ContextError):
    """A layer, expert, token, span or array that a capture does not have; the message says what it has."""

    code = "selection"


class AppStartError(InklingError):
    """The app cannot listen where it was asked to."""

    code = "app-start"
    http_status = 400


class LabStartError(InklingError):
    """JupyterLab did not come up; the message says why and where its log is."""

    code = "lab-start"


class BenchError(InklingError):
    """A measurement that would say nothing (runs that did not alternate, too few rounds), or a record that cannot be written."""

    code = "bench"
    http_status = 400


class ReportError(ContextError):
    """A report that has nothing to show, or cannot be written."""

    code = "report"


class EvalRunError(InklingError):
    """An evaluation's folder that cannot be used, or holds another run; rows or files that are not there."""

    code = "eval-run"
    http_status = 400
