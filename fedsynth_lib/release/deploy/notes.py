"""What a site needs to go on with a run after its process has ended: a file of its own.

It holds the run's state at the site (its secrets of the masks, the rounds that it has answered) and
its last answer. Without it a site that starts again is out of the run. It is written before an
answer leaves, so that after a restart nothing is drawn or masked a second time: the same message
gets the same answer, to the last bit. It is of mode 600, and deleted when the server says that the
run has ended, when another run begins, or a day after its last answer: who had it, and all that was
sent, could take the site's masks off.
"""

import time
from pathlib import Path

from flwr.app import ConfigRecord, Context, Message, RecordDict
from flwr.common.serde import recorddict_from_proto, recorddict_to_proto
from flwr.proto.recorddict_pb2 import RecordDict as Packed

from fedsynth_lib.core.store import write_atomically

LONGEST = 24 * 3600.0  # seconds that a run may be without an answer of the site
UNFINISHED = ".*.tmp"  # files of `write_atomically`
ABOUT, ANSWER = "about", "answer/"  # names of records in the file


class Notes:
    """The file of a site in a study."""

    def __init__(self, path: Path):
        self.path, self._records = path, RecordDict()
        for unfinished in path.parent.glob(UNFINISHED):
            unfinished.unlink(missing_ok=True)  # of a process that was killed while it wrote
        self.forget_old()
        if path.is_file():
            self._records = recorddict_from_proto(Packed.FromString(path.read_bytes()))

    def are_of_run(self, message: Message) -> bool:
        """Return whether they are of the message's run."""
        return self._records.get(ABOUT, {}).get("run") == str(message.metadata.run_id)

    def recalled(self, message: Message, context: Context) -> RecordDict | None:
        """Return the answer that this very message got before, None where it got none.

        In the run of the file the context gets its state: Flower may still have an older one, since
        it drops what an app hands back where its books do not have the task any more.
        """
        if not self.are_of_run(message):
            return None
        context.state = RecordDict(
            {
                name: record
                for name, record in self._records.items()
                if name != ABOUT and not name.startswith(ANSWER)
            }
        )
        if self._records[ABOUT]["message"] != message.metadata.message_id:
            return None
        answer = {name: record for name, record in self._records.items() if name.startswith(ANSWER)}
        return RecordDict({name.removeprefix(ANSWER): record for name, record in answer.items()})

    def keep(self, message: Message, context: Context, answer: Message) -> None:
        """Write down an answer and the state after it.

        Raises BadInput where that cannot be; the answer must then not leave.
        """
        metadata = message.metadata
        about = {"run": str(metadata.run_id), "message": metadata.message_id}
        self._records = RecordDict(
            dict(context.state)
            | {f"{ANSWER}{name}": record for name, record in answer.content.items()}
            | {ABOUT: ConfigRecord(about)}
        )
        content = recorddict_to_proto(self._records).SerializeToString()
        write_atomically(self.path, content, private=True)

    def forget(self) -> None:
        """Delete the file."""
        self._records = RecordDict()
        self.path.unlink(missing_ok=True)

    def forget_old(self) -> None:
        """Delete the file of a run that goes on no more."""
        if self.path.is_file() and time.time() - self.path.stat().st_mtime > LONGEST:
            self.forget()
