// The operator's API, as far as the page reads it. A Go test holds the names to the Go types.

import { decoded } from "./route";

export interface Status {
  version: string;
  uptime_seconds: number;
  policy: string;
  draining: boolean;
  concerns: Concern[];
  requests: number;
  in_flight: number;
  errors: number;
  client_errors: number;
  prompt_tokens: number;
  hit_tokens: number;
  hit_rate: number;
  accuracy: number;
  compared: number;
  index: IndexStatus;
  approx: ApproxStatus;
  queue?: QueueStatus;
  lint?: LintReport;
  workers: WorkerStatus[];
  models: ServedModel[];
  sources?: SourceStatus[];
  cluster?: ClusterStatus;
  config?: ConfigStatus;
  operator_refused: RefusedStatus;
}

export interface Concern {
  kind: string;
  severity: string; // fault, warning or note
  subject?: string;
  text: string;
  advice?: string;
  since_seconds?: number;
}

export interface IndexStatus {
  blocks: number;
  bytes: number;
  max_bytes: number;
  evicted_blocks: number;
}

export interface ApproxStatus {
  bytes: number;
  max_bytes: number;
}

export interface QueueStatus {
  waiting: number;
  oldest_seconds: number;
  rate: number;
  refused: number;
}

export interface LintReport {
  prompts: number;
  now: number;
  then: number;
  findings: LintFinding[];
}

export interface LintFinding {
  model: string;
  prompts: number;
  tokens: number;
  now: number;
  then: number;
  lost: number;
  part: string;
  before: number;
  stable_after: number;
  example: string;
  better: string;
  advice: string;
}

export interface ServedModel {
  model: string;
  names: string[];
  ready: boolean;
  lacks?: string;
}

export interface SourceStatus {
  name: string;
  workers: number;
  answered: boolean;
  error?: string;
}

export interface ClusterStatus {
  up: boolean;
  nodes: number;
  routers: number;
  age_seconds: number;
}

export interface ConfigStatus {
  file?: string;
  error?: string;
  restart?: string[];
}

export interface RefusedStatus {
  no_key: number;
  wrong_key: number;
  foreign: number;
}

export interface WorkerStatus {
  id: string;
  url: string;
  rank: number;
  role: string;
  bootstrap?: string;
  state: string;
  state_seconds: number;
  cordoned?: boolean; // or its node is
  drain?: string[];
  sources?: string[];
  concerns?: Concern[];
  error?: string;
  model: string;
  engine?: string;
  version?: string;
  page_size: number;
  in_flight: number;
  pending_tokens: number;
  requests: number;
  requests_per_second: number | null;
  failed: number;
  share: number;
  prompt_tokens: number;
  hit_tokens: number;
  hit_rate: number;
  overlap: string;
  blocks: number;
  approx_tokens: number;
  sessions: number;
  live_tokens: number;
  events: EventsStatus;
  breaker: BreakerStatus;
  load: LoadStatus;
  trust: TrustStatus;
  gpus: GPUHealthStatus;
}

export interface EventsStatus {
  state: string;
  sequence: number;
  lag_ms: number;
  batches: number;
  gaps: number;
  lost: number;
  replayed: number;
  restarts: number;
  mutes: number;
  malformed: number;
  unknown_events: number;
  unknown_fields: number;
  unknown_parents: number;
  unknown_removals: number;
  beyond_budget: number;
}

export interface BreakerStatus {
  state: string;
  faults: number;
  opened: number;
}

export interface LoadStatus {
  source: string;
  age_seconds: number;
  in_flight: number;
  waiting: number;
  pending_tokens: number;
  used_tokens: number;
  pool_tokens: number;
  max_running: number;
  prefill_tokens_per_second: number;
  own_in_flight: number;
  reserved_tokens: number;
  reports_too_old: boolean;
  predicted_wait_s: number;
}

export interface TrustStatus {
  credit: number;
  accuracy: number;
  compared: number;
  silent_seconds: number;
  check_seconds: number;
  events_set_aside?: EventsAside;
}

export interface EventsAside {
  why: string;
}

export interface GPUHealthStatus {
  state: string;
  weight: number;
  free_bytes?: number;
  doubted?: boolean;
  reasons?: string[];
  age_seconds?: number;
}

type Column = (number | null)[];

export interface Series {
  step_seconds: number;
  at: number[];
  ttft_p50: Column;
  ttft_p95: Column;
  ttft_p99: Column;
  duration_p50: Column;
  duration_p95: Column;
  duration_p99: Column;
  itl_p50: Column;
  itl_p95: Column;
  itl_p99: Column;
  requests: Column;
  prompt_tokens: Column;
  hit_tokens: Column;
  generated_tokens: Column;
  hit_rate: Column;
  expected_hit_rate: Column;
  saved_seconds: Column;
  errors_busy: Column;
  errors_keys: Column;
  errors_client: Column;
  errors_worker: Column;
  errors_router: Column;
  errors_cut: Column;
  in_flight: Column;
  waiting: Column;
  workers: Column;
  workers_ready: Column;
}

export interface Report {
  recent: Series;
  day: Series;
  now: Now;
}

export interface Now {
  ttft_p50: number | null;
  ttft_p95: number | null;
  itl_p95: number | null;
  requests: number | null;
  hit_rate: number | null;
  expected_hit_rate: number | null;
  errors: number | null;
  saved_seconds: number | null;
}

export interface Explained {
  policy: string;
  seed: string;
  prompt: ExplainedPrompt;
  winner?: string;
  why?: string;
  error?: string;
  ranks: ExplainedRank[];
  pair?: ExplainedPair;
  overruled?: string;
}

export interface RecentChoices {
  choices: RecentChoice[];
}

export interface ExplainedChoice {
  choice: RecentChoice;
  explained: Explained;
}

export interface RecentChoice {
  number: number;
  turn: number;
  at: string;
  request?: string;
  model: string;
  policy: string;
  tokens: number;
  exact: boolean;
  cached: number;
  candidates: number;
  worker: string;
  why: string;
  decode?: string;
  decode_why?: string;
  again?: boolean;
  overruled?: string;
}

export interface ExplainedPrompt {
  model?: string;
  tokens: number;
  exact: boolean;
}

export interface ExplainedRank {
  id: string;
  role: string;
  state: string;
  error?: string;
  excluded?: string;
  overlap?: ExplainedOverlap;
  load: LoadStatus;
  trust: TrustStatus;
  gpus: GPUHealthStatus;
  cost?: ExplainedCost;
  winner?: boolean;
}

export interface ExplainedOverlap {
  gpu: number;
  host: number;
  predicted: number;
  credited: number;
  tier?: number;
  remote?: number;
  source: string;
}

export interface ExplainedCost {
  queue: number;
  compute: number;
  tier: number;
  pool: number;
  health: number;
  later: number;
  streams: number;
  sessions: number;
  ttft: number;
  total: number;
  score?: number;
}

export interface ExplainedPair {
  prefill: string;
  decode: string;
  chosen: boolean;
  why?: string;
  ttft: number;
  decodes: ExplainedDecode[];
}

export interface ExplainedDecode {
  id: string;
  state: string;
  held: number;
  cost: ExplainedDecodeCost;
  broken?: boolean;
  winner?: boolean;
}

export interface ExplainedDecodeCost {
  transfer: number;
  room: number;
  step: number;
  total: number;
}

export interface HotPrefixes {
  prompts: number;
  since: string;
  prefixes: HotPrefix[];
  left_out: number;
}

export interface HotPrefix {
  model: string;
  lora?: string;
  salted?: boolean;
  requests: number;
  tokens: number;
  exact: boolean;
  at: string;
  text?: string;
  ids?: number[];
  holders: PrefixHolder[];
  held: number;
}

export interface PrefixHolder {
  id: string;
  tokens: number;
  gpu: number;
  source: string;
}

export interface WhatIf {
  choices: number;
  tokens: number;
  left_out: number;
  policies: WhatIfPolicy[];
}

export interface WhatIfPolicy {
  policy: string;
  made?: boolean;
  same: number;
  cached: number;
  left: number;
  ahead: number;
  ranks: number;
  most: number;
}

export interface Nodes {
  cluster: boolean;
  up: boolean;
  nodes: NodeStatus[];
}

export interface NodeStatus {
  name: string;
  version: string;
  started: string;
  control?: string;
  workers: NodeWorker[];
  gpus?: GPU[];
  driver?: string;
  tier?: Tier;
  links?: Link[];
  drain: boolean;
  cordon: boolean;
  directory?: TierDirectory;
}

export interface NodeWorker {
  url: string;
  role?: string;
  model?: string;
  gpus?: string[];
  tp?: number;
  health: Health;
}

export interface Health {
  state?: string;
  weight?: number;
  no_tp?: boolean;
  reasons?: string[];
}

export interface GPU {
  uuid: string;
  index: number;
  name?: string;
  used?: number;
  total?: number;
  links_up?: number;
  links?: number;
  health: Health;
}

export interface Tier {
  bytes: number;
  used: number;
  pages: number;
  endpoint?: string;
  agent?: string;
  speed?: number;
}

export interface TierDirectory {
  pages: number;
  kinds: number;
  known: boolean;
  silence: number;
}

export interface Link {
  to: string;
  path: string;
  read: number;
  write: number;
  latency: number;
  slow?: string;
  broken?: string;
  at: string;
  unknown?: string;
}

export interface NodeLinks {
  cluster: boolean;
  links: NodeLink[];
  left_out: number;
}

export interface NodeLink extends Link {
  from: string;
  pairs: number;
}

/** Failure is an answer that is not 200, or none: then its status is 0. */
export class Failure extends Error {
  constructor(readonly status: number, message: string) {
    super(message);
  }
}

// The operator key, where the router has one: typed in, or from the address (/console#key), which
// browsers do not send. It is kept for this tab only. "#/" begins the address of a view.
let key = sessionStorage.getItem("key") ?? "";
if (location.hash.length > 1 && !location.hash.startsWith("#/")) {
  setKey(decoded(location.hash.slice(1)));
  history.replaceState(null, "", location.pathname);
}

export function setKey(value: string): void {
  key = value;
  sessionStorage.setItem("key", value);
}

const patience = 10_000; // a router that takes longer is no help to an operator

export async function ask<T>(path: string, method = "GET", body?: unknown): Promise<T> {
  const headers: Record<string, string> = {};
  if (key) headers["Authorization"] = "Bearer " + key;
  const init: RequestInit = { method, headers, cache: "no-store", signal: AbortSignal.timeout(patience) };
  if (body !== undefined) {
    headers["Content-Type"] = "application/json";
    init.body = typeof body === "string" ? body : JSON.stringify(body);
  }
  let answer: Response;
  try {
    answer = await fetch(path, init);
  } catch (e) {
    throw new Failure(0, e instanceof DOMException && e.name === "TimeoutError" ? "no answer in 10 s" : "no connection");
  }
  let got: unknown;
  try {
    got = await answer.json();
  } catch {
    throw new Failure(answer.status, `HTTP ${answer.status}, and no JSON`);
  }
  if (!answer.ok) {
    const error = (got as { error?: { message?: string } }).error;
    throw new Failure(answer.status, error?.message ?? `HTTP ${answer.status}`);
  }
  return got as T;
}
