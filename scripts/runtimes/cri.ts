// A client of a runtime's CRI (runtime.v1, k8s.io/cri-api pkg/apis/runtime/v1/api.proto) for the few calls and fields that
// attach and detach a sandbox, encoded by field number: no generated code for five calls.
import { BinaryReader, BinaryWriter, WireType } from '@bufbuild/protobuf/wire';
import { Client, credentials } from '@grpc/grpc-js';

/** What kubelet says of a pod. `annotations` reach CNI plugins that ask for them. */
export interface SandboxConfig {
  readonly name: string;
  readonly namespace: string;
  readonly uid: string;
  readonly annotations: Readonly<Record<string, string>>;
  /** Absolute, below the root of every cgroup hierarchy. */
  readonly cgroupParent: string;
}

type Fields = (writer: BinaryWriter) => void;
const DEADLINE_MS = 60_000;

/** One connection to a runtime. Every call throws grpc-js's ServiceError with the runtime's words. */
export class CriClient implements Disposable {
  readonly #client: Client;

  constructor(socket: string) {
    this.#client = new Client(`unix:${socket}`, credentials.createInsecure());
  }

  /** Names of the conditions that hold: `RuntimeReady`, `NetworkReady`. */
  async readyConditions(): Promise<readonly string[]> {
    const status = fieldsOf(await this.#call('Status', () => {}), 1);
    return status
      .flatMap((message) => fieldsOf(message, 1))
      .filter((condition) => isSet(condition, 2))
      .map((condition) => textOf(condition, 1));
  }

  /** Makes and attaches a sandbox; returns its container id. */
  async runPodSandbox(sandbox: SandboxConfig): Promise<string> {
    const answer = await this.#call('RunPodSandbox', (request) =>
      message(request, 1, (config) => describe(config, sandbox)),
    );
    return textOf(answer, 1);
  }

  async stopPodSandbox(id: string): Promise<void> {
    await this.#call('StopPodSandbox', (request) => text(request, 1, id));
  }

  async removePodSandbox(id: string): Promise<void> {
    await this.#call('RemovePodSandbox', (request) => text(request, 1, id));
  }

  /** Container ids of all sandboxes, ready or not. */
  async listPodSandbox(): Promise<readonly string[]> {
    return fieldsOf(await this.#call('ListPodSandbox', () => {}), 1).map((sandbox) => textOf(sandbox, 1));
  }

  [Symbol.dispose](): void {
    this.#client.close();
  }

  #call(method: string, fields: Fields): Promise<Uint8Array> {
    const writer = new BinaryWriter();
    fields(writer);
    return new Promise((resolve, reject) => {
      this.#client.makeUnaryRequest(
        `/runtime.v1.RuntimeService/${method}`,
        (bytes: Uint8Array) => Buffer.from(bytes),
        (bytes: Buffer) => bytes,
        writer.finish(),
        { deadline: Date.now() + DEADLINE_MS },
        (error, answer) => (error === null && answer !== undefined ? resolve(answer) : reject(error)),
      );
    });
  }
}

// PodSandboxConfig: metadata 1 {name 1, uid 2, namespace 3}, hostname 2, annotations 7, linux 8 {cgroup_parent 1}.
function describe(config: BinaryWriter, sandbox: SandboxConfig): void {
  message(config, 1, (metadata) => {
    text(metadata, 1, sandbox.name);
    text(metadata, 2, sandbox.uid);
    text(metadata, 3, sandbox.namespace);
  });
  text(config, 2, sandbox.name);
  for (const [key, value] of Object.entries(sandbox.annotations)) {
    message(config, 7, (entry) => {
      text(entry, 1, key);
      text(entry, 2, value);
    });
  }
  message(config, 8, (linux) => text(linux, 1, sandbox.cgroupParent));
}

function text(writer: BinaryWriter, field: number, value: string): void {
  writer.tag(field, WireType.LengthDelimited).string(value);
}

function message(writer: BinaryWriter, field: number, fields: Fields): void {
  writer.tag(field, WireType.LengthDelimited).fork();
  fields(writer);
  writer.join();
}

/** Contents of every occurrence of a length-delimited field. */
function fieldsOf(bytes: Uint8Array, wanted: number): readonly Uint8Array[] {
  const reader = new BinaryReader(bytes);
  const found: Uint8Array[] = [];
  while (reader.pos < reader.len) {
    const [field, wireType] = reader.tag();
    if (field === wanted && wireType === WireType.LengthDelimited) found.push(reader.bytes());
    else reader.skip(wireType, field);
  }
  return found;
}

function textOf(bytes: Uint8Array, field: number): string {
  return (
    fieldsOf(bytes, field)
      .map((value) => new TextDecoder().decode(value))
      .at(-1) ?? ''
  );
}

/** A bool field that is true. */
function isSet(bytes: Uint8Array, wanted: number): boolean {
  const reader = new BinaryReader(bytes);
  while (reader.pos < reader.len) {
    const [field, wireType] = reader.tag();
    if (field === wanted && wireType === WireType.Varint) return reader.bool();
    reader.skip(wireType, field);
  }
  return false;
}
