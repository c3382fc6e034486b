// A gRPC server on a unix socket that nobody can sit on: a connection without a call at work is cut after a moment, whether
// it brought nothing, garbage, half a frame or half a message. grpc-js has an idle time too, but it ends a connection only
// in good order, which a client that leaves a frame open never lets happen.
import { createServer, type Server as NetServer, type Socket } from 'node:net';
import {
  ResponderBuilder,
  Server,
  ServerCredentials,
  ServerInterceptingCall,
  type ServerInterceptor,
  ServerListenerBuilder,
  type ServerOptions,
} from '@grpc/grpc-js';
import { listenOnUnixSocket, type UnixSocketOptions } from '../host/unix-listener.ts';

/** A bad client must be gone in five seconds, also where this process is late. */
const WITHOUT_CALL_MS = 3000;

/** Listens once; `close` ends it for good. */
export class GuardedServer {
  /** For services only: listening and closing is done here. */
  readonly grpc: Server;
  readonly #net: NetServer;
  readonly #connections = new Map<number, Connection>();
  #lastId = 0;

  constructor(options: ServerOptions = {}) {
    this.grpc = new Server({ ...options, interceptors: [this.#watchCall] });
    const injector = this.grpc.createConnectionInjector(ServerCredentials.createInsecure());
    this.#net = createServer((socket) => {
      this.#admit(socket);
      injector.injectConnection(socket);
    });
    // A connection that cannot be accepted (no descriptor left) is its client's loss, not the end of the server.
    this.#net.on('error', () => {});
  }

  /** Throws StoreError. */
  listen(options: UnixSocketOptions): Promise<void> {
    return listenOnUnixSocket(this.#net, options);
  }

  /** The socket file is gone at once; calls at work get `graceMs`, the rest is cut. */
  async close({ graceMs }: { readonly graceMs: number }): Promise<void> {
    this.#net.close();
    const timer = setTimeout(() => this.grpc.forceShutdown(), graceMs);
    await new Promise<void>((resolve) => this.grpc.tryShutdown(() => resolve()));
    clearTimeout(timer);
    for (const connection of this.#connections.values()) connection.cut();
  }

  #admit(socket: Socket): void {
    const id = ++this.#lastId;
    this.#connections.set(id, new Connection(socket));
    socket.once('close', () => this.#connections.delete(id));
    // A unix socket has no port; as one, the number comes back in the connection info of a call.
    Object.defineProperty(socket, 'remotePort', { value: id });
  }

  // A call is at work from its first whole message to its status, or to the end of its stream.
  readonly #watchCall: ServerInterceptor = (_method, call) => {
    const connection = this.#connections.get(call.getConnectionInfo().remotePort ?? 0);
    const listener = new ServerListenerBuilder()
      .withOnReceiveMessage((message, next) => {
        connection?.begin(call);
        next(message);
      })
      .withOnCancel(() => connection?.end(call))
      .build();
    const responder = new ResponderBuilder()
      .withStart((next) => next(listener))
      .withSendStatus((status, next) => {
        connection?.end(call);
        next(status);
      })
      .build();
    return new ServerInterceptingCall(call, responder);
  };
}

class Connection {
  readonly #socket: Socket;
  readonly #calls = new Set<object>();
  readonly #timer: NodeJS.Timeout;

  constructor(socket: Socket) {
    this.#socket = socket;
    // After what has arrived meanwhile was read: this process may have been busy itself.
    this.#timer = setTimeout(() => setImmediate(() => this.#cutWithoutCall()), WITHOUT_CALL_MS);
    socket.once('close', () => clearTimeout(this.#timer));
  }

  begin(call: object): void {
    this.#calls.add(call);
  }

  end(call: object): void {
    if (this.#calls.delete(call) && this.#calls.size === 0 && !this.#socket.destroyed) this.#timer.refresh();
  }

  #cutWithoutCall(): void {
    if (this.#calls.size === 0) this.cut();
  }

  cut(): void {
    this.#socket.destroy();
  }
}
