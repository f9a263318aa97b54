"""The chat in JupyterLab over a real engine: typing, the answer, its probabilities, another branch, and an empty engine."""

from __future__ import annotations

import nbformat
import pytest

pytestmark = [pytest.mark.browser, pytest.mark.engine]

CELL = """import engine
from workbench import Context
from widgets import Chat
context = Context(system="Answer briefly.", effort="none")
context.add_document(b"The harbour master is Ana Duarte.", name="note.txt")
chat = Chat(engine.attach(), context, max_tokens=12, temperature=0)
chat"""


def test_chat_answers_branches_and_shows_probabilities(eng, lab, visit, shoot, tmp_path):
    book = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(CELL)])
    book.metadata["kernelspec"] = {"name": "python3", "display_name": "Python 3", "language": "python"}
    nbformat.write(book, tmp_path / "chat.ipynb")
    page = visit(width=1200, height=1100)
    lab.open(page, tmp_path / "chat.ipynb")
    lab.run_all(page)
    chat = page.locator(".ink-chat")
    box = chat.get_by_label("Your message")
    box.wait_for()
    assert "note.txt" in chat.inner_text()
    shoot(chat, "chat-lab-empty")

    box.fill("Who is the harbour master?")
    chat.get_by_text("for the answer, of").wait_for()  # what it costs, before it is sent
    box.press("Enter")
    reply = chat.locator(".ink-turn.is-reply")
    reply.wait_for()
    said = lab.python(page, "print(chat.reply.text)").strip()
    assert said in reply.inner_text()
    read = int(lab.python(page, "print(chat.reply.usage.prompt_tokens)"))
    assert f"{read:,} tokens read" in reply.inner_text()

    reply.get_by_role("button", name="Show each token's probability").click()
    tokens = reply.locator(".ink-token")
    assert tokens.count() == int(lab.python(page, "print(chat.reply.usage.completion_tokens)"))
    tokens.first.focus()
    page.wait_for_function("() => document.querySelector('.ink-chat .ink-alternatives').textContent.includes('%')")
    shoot(chat, "chat-lab")

    chat.get_by_role("button", name="Edit this message").click()
    chat.get_by_label("Edit the message").fill("Which harbour is it?")
    chat.get_by_role("button", name="Ask with the edited message").click()
    chat.get_by_text("2 of 2").first.wait_for()
    page.wait_for_function("() => document.querySelectorAll('.ink-chat .ink-turn.is-reply').length === 1")
    chat.get_by_role("button", name="The branch before").first.click()
    chat.get_by_text("Who is the harbour master?").wait_for()
    shoot(chat, "chat-lab-branches")

    reply.get_by_role("button", name="Choose this reply").click()
    for _ in range(50):
        if lab.python(page, "print(chat.chosen != '')").strip() == "True":
            break
        page.wait_for_timeout(100)
    assert lab.python(page, "print(chat.reply.text)").strip() == said
