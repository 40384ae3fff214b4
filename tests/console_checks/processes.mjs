// The programs that the checks start, and end again.

import { execFile, spawn } from "node:child_process";
import fs from "node:fs";
import path from "node:path";
import { promisify } from "node:util";

const running = new Set();

/** Waits for a moment. */
export const rest = (ms) => new Promise((done) => setTimeout(done, ms));

/** Waits until something is true, and gives it. */
export async function until(what, is, ms = 30_000) {
  const end = Date.now() + ms;
  let last;
  while (Date.now() < end) {
    try {
      last = await is();
      if (last) return last;
    } catch (error) {
      last = error;
    }
    await rest(100);
  }
  throw new Error(`after ${ms / 1000} s it is not so that ${what}: ${last}`);
}

/** Starts a program. Gives it with what it printed so far. */
export function begin(program, args, log) {
  const out = fs.openSync(log, "a");
  const child = spawn(program, args, { stdio: ["ignore", "pipe", out] });
  const process = { child, pid: child.pid, text: "", code: null };
  child.stdout.on("data", (data) => { process.text += data; });
  child.on("exit", (code) => { process.code = code ?? -1; running.delete(process); });
  running.add(process);
  return process;
}

/** Tells a program to end, and waits until it has. */
export async function end(process, signal = "SIGINT") {
  process.child.kill(signal);
  await until(`process ${process.pid} ends`, () => process.code !== null);
}

/** Ends all that still run. */
export async function endAll() {
  for (const process of running) process.child.kill("SIGINT");
  await until("all processes end", () => running.size === 0, 20_000).catch(() => {
    for (const process of running) process.child.kill("SIGKILL");
  });
}

/** Runs a command of rhumb to its end, and gives what it printed. */
export async function rhumb(world, ...args) {
  const { stdout } = await promisify(execFile)(path.join(world.programs, "rhumb"), [...args, "--data", world.data]);
  return stdout;
}

/** How the crawl stands, as `rhumb status` tells it. */
export const status = async (world) => JSON.parse(await rhumb(world, "status", "--json"));

/** The largest memory that a process had, in bytes. */
export function peakBytes(pid) {
  const [, kilobytes] = fs.readFileSync(`/proc/${pid}/status`, "utf8").match(/VmHWM:\s+(\d+) kB/);
  return 1024 * Number(kilobytes);
}
