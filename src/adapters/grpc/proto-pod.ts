// A pod between its three shapes: the domain's values, the message on the wire (aether.cni.v1.CNIPod), and the record
// on disk, which is the message's canonical JSON. Plugin and agent both convert here and nowhere else.
import { create, fromJsonString, toJsonString } from '@bufbuild/protobuf';
import { InputError, messageOf } from '../../core/errors.ts';
import { parseContainerId } from '../../core/identifiers.ts';
import { ProblemList, quoteValue } from '../../core/problems.ts';
import { type CNIPod, CNIPodSchema } from '../../gen/aether/cni/v1/cni_pb.js';
import type { PodRecord } from '../../mesh/workload.ts';
import type { PodRequest } from '../../plugin/deps.ts';

/**
 * A record with what the domain does not look at but other readers of the file do. `pid` is the sandbox process, where
 * a plugin of the Go mesh knew one; absent is not zero.
 */
export interface StoredPod extends PodRecord {
  readonly pid?: number;
}

/** The message that AddPod sends. What the agent fills (labels, service account) is left empty. */
export function podRequestToMessage(pod: PodRequest): CNIPod {
  return create(CNIPodSchema, {
    name: pod.name,
    namespace: pod.namespace,
    networkNamespace: pod.networkNamespace,
    containerId: pod.containerId,
    ips: [...pod.ips],
    annotations: { ...pod.annotations },
    uid: pod.uid,
  });
}

/** What a plugin asks, checked: it comes over a socket. Throws InputError naming every problem. */
export function podRequestFromMessage(message: CNIPod | undefined): PodRequest & { readonly pid?: number } {
  const list = new ProblemList();
  if (message === undefined)
    throw new InputError('reading an AddPod request', [{ path: 'pod', message: 'is missing' }]);
  if (message.name === '') list.add('pod.name', 'must not be empty');
  const containerId = parseContainerId(message.containerId);
  if (typeof containerId === 'object') {
    list.add('pod.container_id', `${containerId.problem}, got ${quoteValue(message.containerId)}`);
  }
  if (!list.isEmpty || typeof containerId === 'object') {
    throw new InputError('reading an AddPod request', list.problems);
  }
  return {
    name: message.name,
    namespace: message.namespace,
    containerId,
    networkNamespace: message.networkNamespace,
    ips: [...message.ips],
    annotations: { ...message.annotations },
    uid: message.uid,
    ...(message.pid === undefined ? {} : { pid: message.pid }),
  };
}

/** What is stored: every field, `pid` where it is known. */
export function podRecordToMessage(record: StoredPod): CNIPod {
  return create(CNIPodSchema, {
    name: record.name,
    namespace: record.namespace,
    networkNamespace: record.networkNamespace,
    containerId: record.containerId,
    ips: [...record.ips],
    labels: { ...record.labels },
    annotations: { ...record.annotations },
    serviceAccount: record.serviceAccount,
    terminating: record.terminating,
    uid: record.uid,
    ...(record.pid === undefined ? {} : { pid: record.pid }),
  });
}

/** The other way; as it was written, nothing of it is checked. */
export function podRecordFromMessage(message: CNIPod): StoredPod {
  return {
    name: message.name,
    namespace: message.namespace,
    networkNamespace: message.networkNamespace,
    containerId: message.containerId,
    ips: [...message.ips],
    labels: { ...message.labels },
    annotations: { ...message.annotations },
    serviceAccount: message.serviceAccount,
    terminating: message.terminating,
    uid: message.uid,
    ...(message.pid === undefined ? {} : { pid: message.pid }),
  };
}

/** The text of a record file: canonical proto3 JSON, `{"name": "shop-0", "containerId": "…", …}`, with a final newline. */
export function formatPodRecordJson(record: StoredPod): string {
  return `${toJsonString(CNIPodSchema, podRecordToMessage(record), { prettySpaces: 2 })}\n`;
}

/**
 * Reads a record file, also one of the Go mesh: fields that are not known are ignored, original and camel-case names
 * are both taken. Throws InputError for text that is none, or that names no container.
 */
export function parsePodRecordJson(text: string): StoredPod {
  let message: CNIPod;
  try {
    message = fromJsonString(CNIPodSchema, text, { ignoreUnknownFields: true });
  } catch (error) {
    throw new InputError('reading a pod record', [{ path: '', message: messageOf(error) }]);
  }
  const containerId = parseContainerId(message.containerId);
  if (typeof containerId === 'object') {
    const problem = `${containerId.problem}, got ${quoteValue(message.containerId)}`;
    throw new InputError('reading a pod record', [{ path: 'containerId', message: problem }]);
  }
  return podRecordFromMessage(message);
}
