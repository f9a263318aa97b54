// Questions and answers over a host's messages: newest wins in a lane, errors and silence are told.

import assert from "node:assert/strict";
import { test } from "node:test";

import { createAsker } from "../../../widgets/_shared/ask.js";
import { goneBy } from "../../../widgets/_shared/connection.js";
import { createPolling } from "../../../widgets/_shared/polling.js";
import { createRpc, RequestError, Superseded } from "../../../widgets/_shared/rpc.js";

function host() {
  const sent = [];
  let listen = null;
  return {
    sent, answer: (id, content, buffers = []) => listen?.({ id, ...content }, buffers),
    send: (content) => sent.push(content), on: (_, f) => { listen = f; }, off: () => { listen = null; },
  };
}

test("an answer comes to its question, with its bytes", async () => {
  const model = host();
  const rpc = createRpc(model);
  const asked = rpc.ask("row", { start: 1 });
  assert.deepEqual([model.sent[0].verb, model.sent[0].args], ["row", { start: 1 }]);
  model.answer("somebody else's", { ok: true, result: 9 });
  model.answer(model.sent[0].id, { ok: true, result: 7 }, [new DataView(Uint8Array.of(1, 2, 3).buffer, 1)]);
  const { result, buffers } = await asked;
  assert.deepEqual([result, [...buffers[0]]], [7, [2, 3]]);
});

test("a lane holds one question under way and the newest that waits", async () => {
  const model = host();
  const rpc = createRpc(model);
  const [first, second, third] = [1, 2, 3].map((n) => rpc.ask("row", { n }));
  await assert.rejects(second, Superseded);
  assert.equal(model.sent.length, 1);
  model.answer(model.sent[0].id, { ok: true, result: "one" });
  assert.equal((await first).result, "one");
  assert.deepEqual(model.sent[1].args, { n: 3 });
  model.answer(model.sent[1].id, { ok: false, error: { code: "selection", message: "no such row" } });
  await assert.rejects(third, (error) => error instanceof RequestError && error.message === "no such row");
});

test("silence is told, and the lane goes on", async () => {
  const model = host();
  const heard = [];
  const rpc = createRpc(model, { timeout_ms: 10, heard: (problem) => heard.push(problem?.code ?? "answer") });
  await assert.rejects(rpc.ask("row", {}), /no answer from Python/);
  model.answer(model.sent[0].id, { ok: true, result: 1 }); // late: nobody waits for it, but somebody is there
  model.answer("somebody else's", { ok: true, result: 1 });
  assert.deepEqual(heard, ["timeout", "answer"]);
  const again = rpc.ask("row", {});
  model.answer(model.sent[1].id, { ok: true, result: 1 });
  assert.equal((await again).result, 1);
});

test("a dropped question is asked again under its own id, and a dropped answer too", async () => {
  const model = host();
  const rpc = createRpc(model, { timeout_ms: 2_000, repeat_ms: 10 });
  const asked = rpc.ask("send", { text: "hello" });
  while (model.sent.length < 3) await new Promise((done) => { setTimeout(done, 5); }); // the first two were lost on their way
  assert.deepEqual(new Set(model.sent.map(({ id }) => id)).size, 1);
  model.answer(model.sent[0].id, { ok: true, result: 7 });
  assert.equal((await asked).result, 7);
  const { length } = model.sent;
  await new Promise((done) => { setTimeout(done, 40); });
  assert.equal(model.sent.length, length); // an answered question is not sent again
});

test("hosts whose questions are requests of their own never send twice", async () => {
  const model = host();
  const rpc = createRpc(model, { timeout_ms: 60 });
  await assert.rejects(rpc.ask("send", {}));
  assert.equal(model.sent.length, 1);
});

test("a host that lost its way to Python says so at once, and the lane goes on", async () => {
  const model = host();
  const heard = [];
  const rpc = createRpc(model, { heard: (problem) => heard.push(problem?.code ?? "answer") });
  const { send } = model;
  model.send = () => { throw new Error("Cannot send"); };
  await assert.rejects(rpc.ask("row", {}), { code: "gone" });
  model.send = send;
  const again = rpc.ask("row", {});
  model.answer(model.sent[0].id, { ok: true, result: 1 });
  assert.equal((await again).result, 1);
  assert.deepEqual(heard, ["gone", "answer"]);
});

test("who is gone is told by the failure's code", () => {
  assert.deepEqual(["engine-died", "engine-unreachable", "timeout", "gone", "selection", undefined].map(goneBy), ["engine", "engine", "kernel", "kernel", null, null]);
});

test("a failure is shown where the reader looks, and goes when a later question succeeds", async () => {
  const problem = { hidden: true, textContent: "" };
  let fails = true;
  const rpc = { ask: async () => { if (fails) throw new RequestError("not there", "x"); return { result: 5, buffers: [] }; } };
  const { signal } = new AbortController();
  const ask = createAsker(rpc, problem, signal);
  assert.equal(await ask("row"), null);
  assert.deepEqual([problem.hidden, problem.textContent], [false, "not there"]);
  fails = false;
  assert.equal((await ask("row")).result, 5);
  assert.equal(problem.hidden, true);
});

test("polling looks until nothing runs, and once at a time", async () => {
  let left = 3;
  const polling = createPolling(async () => (left -= 1) > 0, new AbortController().signal, 1);
  polling.start();
  await polling.start();
  await new Promise((done) => { setTimeout(done, 60); });
  assert.equal(left, 0);
});
