// One gRPC call over a unix socket, for tests of our servers.
import type { DescMessage, DescMethodUnary, MessageInitShape, MessageShape } from '@bufbuild/protobuf';
import { create } from '@bufbuild/protobuf';
import { Client, credentials, Metadata } from '@grpc/grpc-js';
import { unaryMethod } from '../../src/adapters/grpc/unary-method.ts';

export interface UnaryAnswer<O> {
  readonly response: O;
  readonly trailers: Metadata;
}

/** Rejects with the ServiceError of a failed call. */
export async function callUnary<I extends DescMessage, O extends DescMessage>(
  socketPath: string,
  method: DescMethodUnary<I, O>,
  options: {
    readonly request: MessageInitShape<I>;
    readonly metadata?: Readonly<Record<string, string>>;
    readonly timeoutMs?: number;
  },
): Promise<UnaryAnswer<MessageShape<O>>> {
  const client = new Client(`unix:${socketPath}`, credentials.createInsecure());
  const { path, requestSerialize, responseDeserialize } = unaryMethod(method);
  const metadata = new Metadata();
  for (const [key, value] of Object.entries(options.metadata ?? {})) metadata.set(key, value);
  try {
    return await new Promise((resolve, reject) => {
      let trailers = new Metadata();
      let response: MessageShape<O> | undefined;
      const call = client.makeUnaryRequest(
        path,
        requestSerialize,
        responseDeserialize,
        create(method.input, options.request),
        metadata,
        { deadline: Date.now() + (options.timeoutMs ?? 5000) },
        (error, value) => {
          if (error !== null) reject(error);
          else response = value;
        },
      );
      call.on('status', (status) => {
        trailers = status.metadata;
        if (response !== undefined) resolve({ response, trailers });
      });
    });
  } finally {
    client.close();
  }
}
