// A unary gRPC method as grpc-js wants it, from the generated description of its service: one for client and server.
import { type DescMessage, type DescMethodUnary, fromBinary, type MessageShape, toBinary } from '@bufbuild/protobuf';
import type { MethodDefinition } from '@grpc/grpc-js';

/** `CNIService.method.addPod` -> path `/aether.cni.v1.CNIService/AddPod` and its codecs. Unknown fields survive. */
export function unaryMethod<I extends DescMessage, O extends DescMessage>(
  method: DescMethodUnary<I, O>,
): MethodDefinition<MessageShape<I>, MessageShape<O>> {
  return {
    path: `/${method.parent.typeName}/${method.name}`,
    requestStream: false,
    responseStream: false,
    requestSerialize: (message) => Buffer.from(toBinary(method.input, message)),
    requestDeserialize: (bytes) => fromBinary(method.input, bytes),
    responseSerialize: (message) => Buffer.from(toBinary(method.output, message)),
    responseDeserialize: (bytes) => fromBinary(method.output, bytes),
  };
}
