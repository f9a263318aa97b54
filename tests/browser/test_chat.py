"""The chat in JupyterLab over a real engine: typing, the answer, its probabilities, another branch, and an empty engine."""

from __future__ import annotations

import pytest

from tests.browser.widget_pages import check_qualities, eventually, looks, open_cells

pytestmark = [pytest.mark.browser, pytest.mark.engine]

CELL = """import engine
from workbench import Context
from widgets import Chat
context = Context(system="Answer briefly.", effort="none")
context.add_document(b"The harbour master is Ana Duarte.", name="note.txt")
chat = Chat(engine.attach(), context, max_tokens=12, temperature=0)
chat"""


def test_chat_answers_branches_and_shows_probabilities(eng, lab, visit, shoot, tmp_path):
    page = open_cells(lab, visit, tmp_path / "chat.ipynb", CELL)
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

    # A token chosen among them: from it to routing and attention.
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    eventually(lab, page, "chat.token, chat.chosen == chat.conversation.leaf.id", "1 True")
    assert chat.locator(".ink-token.is-chosen").count() == 1
    looked = lab.python(page, "r, a = chat.look_inside(); print(r.selection, a.subject.windows.queries[a.query])").strip()
    place = read + 1
    assert looked == f"[{place}, {place + 1}] {place - 1}"

    chat.get_by_role("button", name="Edit this message").click()
    chat.get_by_label("Edit the message").fill("Which harbour is it?")
    chat.get_by_role("button", name="Ask with the edited message").click()
    chat.get_by_text("2 of 2").first.wait_for()
    page.wait_for_function("() => document.querySelectorAll('.ink-chat .ink-turn.is-reply').length === 1")
    chat.get_by_role("button", name="The branch before").first.click()
    chat.get_by_text("Who is the harbour master?").wait_for()
    shoot(chat, "chat-lab-branches")

    reply.get_by_role("button", name="Choose this reply").click()
    eventually(lab, page, "chat.chosen != ''", "True")
    assert lab.python(page, "print(chat.reply.text)").strip() == said
    reply.get_by_role("button", name="Show each token's probability").click()
    reply.locator(".ink-token").first.focus()
    check_qualities(page, ".ink-chat")
    looks(page, ".ink-chat", "chat", shoot)

    # An engine that is gone is said, and found again: the conversation goes on.
    lab.python(page, "chat.session.engine._connection.url = 'http://127.0.0.1:9'")
    box.fill("Is it open?")
    box.press("Enter")
    lost = chat.locator(".ink-lost")
    lost.get_by_text("Lost with it: what it had cached").wait_for()
    shoot(chat, "chat-lost")
    lost.get_by_role("button", name="Look for the engine that runs now").click()
    lost.wait_for(state="hidden")
    before = int(lab.python(page, "print(len(chat.conversation.turns))"))
    box.fill("Is it open now?")
    box.press("Enter")
    eventually(lab, page, f"len(chat.conversation.turns) >= {before + 2}", "True")
