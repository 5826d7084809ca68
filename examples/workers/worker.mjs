// A worker of the kernel in plain JavaScript: it takes processes from the queue, walks each through
// a pipeline, and runs its agents by functions of its own. Node 20, no packages.
//
//     VEGA_URL=http://127.0.0.1:8799 VEGA_TOKEN=vega_… node worker.mjs pipeline.json
//
// What is worth copying: a task is renewed while it runs, a report that is refused because another
// worker has the task by now is dropped, and a call that was not answered is made again only where
// that does no harm. The worker can be killed at any moment.

import { readFileSync } from "node:fs";
import { hostname } from "node:os";
import { setTimeout as sleep } from "node:timers/promises";

const { VEGA_URL: url = "http://127.0.0.1:8799", VEGA_TOKEN: token = "" } = process.env;
const holder = `${hostname()} ${process.pid}`;
const WAIT_MS = 20_000;

class Refused extends Error {
  constructor(status, { code, message }) {
    super(`${status} ${code}: ${message}`);
    this.code = code;
  }
}

// One operation of the kernel. It may take longer than what it waits for on purpose.
export async function call(operation, fields = {}) {
  const response = await fetch(`${url}/v1/${operation}`, {
    method: "POST",
    headers: { Authorization: `Bearer ${token}`, "Content-Type": "application/json" },
    body: JSON.stringify(fields),
    signal: AbortSignal.timeout(WAIT_MS + 10_000),
  });
  const reply = await response.json();
  if (!response.ok) throw new Refused(response.status, reply.error);
  return reply;
}

// Keep calling `renew` until the returned function is called.
function keepRenewing(renew, everyMs) {
  const timer = setInterval(() => renew().catch(() => {}), everyMs);
  return () => clearInterval(timer);
}

// Run one task by the function of its agent, and report what came of it. An agent returns its
// output, throws to fail, or throws a `Question` to ask a person.
export class Question extends Error {
  constructor(text, kind = "clarification") {
    super(text);
    this.kind = kind;
  }
}

async function runTask(pid, task, envelope, agents, leaseMs) {
  const stop = keepRenewing(() => call("renew_task", { pid, task: task.id }), leaseMs / 3);
  const id = `${pid}/${task.stage}/${task.iteration}`;
  const began = Date.now();
  let outcome;
  let error = "";
  try {
    const agent = agents[task.agent];
    if (!agent) throw new Error(`this worker has no agent ${task.agent}`);
    const answer = () => answerTo(id);
    const output = await agent({ input: envelope.input, outputs: envelope.outputs ?? {}, task, answer });
    outcome = { type: "StageCompleted", output };
  } catch (failure) {
    if (failure instanceof Question) {
      await call("create_interrupt", { pid, id, kind: failure.kind, question: failure.message });
      outcome = { type: "StageAsked", interrupt: id, kind: failure.kind };
    } else {
      outcome = { type: "StageFailed", failure: "tool_failed" };
      error = String(failure.message).slice(0, 10_000);
    }
  } finally {
    stop();
  }
  const metrics = { duration_ms: Date.now() - began };
  return call("report_agent_result", { pid, task: task.id, outcome, metrics, error });
}

// The answer to a question of this task, if it was asked and is answered.
async function answerTo(id) {
  try {
    const { interrupt } = await call("get_interrupt", { id });
    return interrupt.answer ?? null;
  } catch (refused) {
    if (refused.code === "not_found") return null;
    throw refused;
  }
}

// Walk one process through the pipeline; return why it ended, or null if it waits for a person: once
// that one has answered it is in the queue again, for whichever worker is free.
export async function walk(pid, pipeline, input, agents) {
  const leaseMs = pipeline.lease_ms ?? 60_000;
  const running = new Map();
  // If a worker before us has begun it, and is gone, this goes on with it.
  let reply = await call("initialize_session", { pid, pipeline, input });
  for (;;) {
    const { instruction, envelope } = reply;
    if (instruction.type === "Terminate") return instruction.reason;
    if (instruction.type === "WaitForInterrupts") return null;
    for (const task of instruction.tasks ?? []) {
      const done = runTask(pid, task, envelope, agents, leaseMs).catch((refused) => {
        if (refused.code !== "conflict") throw refused;
        return null; // another worker has the task by now, or the session has ended
      });
      running.set(task.id, done.then((next) => ({ id: task.id, next })));
    }
    if (running.size) {
      const { id, next } = await Promise.race(running.values());
      running.delete(id);
      reply = next ?? (await call("get_next_instruction", { pid }));
    } else {
      reply = await call("get_next_instruction", { pid, wait_ms: WAIT_MS });
    }
  }
}

// Take processes from the queue until `stop` is aborted.
export async function work(pipeline, agents, { stop, onEnd = () => {} }) {
  while (!stop.aborted) {
    const { process: taken } = await call("get_next_runnable", { holder });
    if (!taken) {
      await sleep(100, undefined, { signal: stop }).catch(() => {});
      continue;
    }
    const renewed = keepRenewing(() => call("renew_process", { pid: taken.pid, holder }), 20_000);
    try {
      const reason = await walk(taken.pid, pipeline, taken.request, agents);
      if (reason === null) continue;
      await call("terminate_process", { pid: taken.pid, reason });
      await onEnd(taken.pid, reason);
    } finally {
      renewed();
    }
  }
}

// The agents of this example: plain functions. Call a model here, or whatever you like.
const agents = {
  writer: ({ input, task }) => `${task.stage} about ${input}`,
  flaky({ task }) {
    if (task.attempt === 1) throw new Error("the first attempt fails");
    return "found on the second attempt";
  },
  async editor({ outputs, answer }) {
    const said = await answer();
    if (!said) throw new Question(`May this be sent? ${outputs.draft}`);
    return { sent: said.value, facts: outputs.facts };
  },
};

if (process.argv[1] === new URL(import.meta.url).pathname) {
  const pipeline = JSON.parse(readFileSync(process.argv[2] ?? "pipeline.json", "utf8"));
  const ending = new AbortController();
  process.once("SIGTERM", () => ending.abort());
  const onEnd = (pid, reason) => console.log(`${pid} ${reason}`);
  await work(pipeline, agents, { stop: ending.signal, onEnd });
}
