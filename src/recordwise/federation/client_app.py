"""A silo, or the shuffler, as a Flower ClientApp: everything it knows is in the folder that its SuperNode names."""

from __future__ import annotations

from pathlib import Path

import recordwise.extras.federation  # noqa: F401

from flwr.app import ConfigRecord, Context, Message, RecordDict
from flwr.clientapp import ClientApp

from recordwise.errors import InvalidInput
from recordwise.federation.exchange import REPLY, REQUEST
from recordwise.federation.nodes import node_in

app = ClientApp()


@app.query()
def answer(message: Message, context: Context) -> Message:
    folder = context.node_config.get("folder")
    if not isinstance(folder, str):
        raise InvalidInput(f"node config must name the node's folder, got folder = {folder!r}")
    asked = message.content.config_records[REQUEST]
    stage, content = asked["stage"], asked["content"]
    if not (isinstance(stage, str) and isinstance(content, bytes)):
        raise InvalidInput("a request must hold a stage and its content, this one does not")
    reply = node_in(Path(folder)).reply(stage, content)
    return Message(RecordDict({REPLY: ConfigRecord({"content": reply})}), reply_to=message)
