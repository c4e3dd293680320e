"""The ways in which a provider fails a task: each a plan for `headgate provider --fail`.

The first call of a task fails and so does the first one after it that went well, so that the
beginning of a conversation and its middle are both met. Silences come once: they last 70 s.
"""
import dataclasses

SILENCE_SECONDS = 70


@dataclasses.dataclass(frozen=True)
class Column:
    key: str
    title: str
    plan: str
    faults: int           # How many of the plan's faults a task of two calls meets.
    slow: bool = False    # It mostly sleeps: in a silence, or between our own attempts.


COLUMNS = (
    Column("429", "429 + retry-after", "429@1,429@3", 2),
    Column("429-bare", "429 bare", "429-bare@1,429-bare@3", 2, slow=True),
    Column("529", "529", "529@1,529@3", 2, slow=True),
    Column("503", "503", "503@1,503@3", 2, slow=True),
    Column("stream", "refusal in stream", "stream@1,stream@3", 2, slow=True),
    Column("drop", "reset before byte", "drop@1,drop@3", 2),
    Column("cut", "reset after bytes", "cut@1,cut@3", 2),
    Column("silence", "70 s, then headers", f"silence={SILENCE_SECONDS}@2", 1, slow=True),
    Column("stall", "headers, then 70 s", f"stall={SILENCE_SECONDS}@2", 1, slow=True),
)
