// An explanation between the domain's value and the message of aether.admin.v1.
import { create } from '@bufbuild/protobuf';
import {
  type ExplainedDial as DialMessage,
  type ExplainResponse,
  ExplainResponseSchema,
  type ExplainedTarget as TargetMessage,
} from '../../gen/aether/admin/v1/admin_pb.js';
import { Service_Protocol, type ServiceEndpoint_Health } from '../../gen/aether/registry/v1/service_pb.js';
import type { Health } from '../../mesh/endpoint.ts';
import type { ExplainedDial, ExplainedTarget, Explanation } from '../../mesh/explanation.ts';
import { healthToMessage, protocolToMessage } from './proto-endpoint.ts';

export function explanationToMessage({ dials, notes, ...texts }: Explanation): ExplainResponse {
  return create(ExplainResponseSchema, {
    ...texts,
    notes: [...notes],
    dials: dials.map(({ target, ...dial }) =>
      target === undefined ? dial : { ...dial, target: targetToInit(target) },
    ),
  });
}

/** Words that this program does not know stay as they are: they are only shown. */
export function explanationFromMessage(message: ExplainResponse): Explanation {
  const { pod, destination, authority, name, notes, resolved, verdict } = message;
  return {
    pod,
    captureMode: message.captureMode as Explanation['captureMode'],
    destination,
    bytes: message.bytes as Explanation['bytes'],
    authority,
    name,
    dials: message.dials.map(dialFromMessage),
    notes,
    resolved,
    verdict,
  };
}

function targetToInit({ protocol, serverIdentities, endpoints, ...target }: ExplainedTarget) {
  return {
    ...target,
    protocol: protocolToMessage(protocol),
    serverIdentities: [...serverIdentities],
    endpoints: endpoints.map(({ health, ...endpoint }) => ({ ...endpoint, health: healthToMessage(health) })),
  };
}

function dialFromMessage({ $typeName: _, $unknown: __, target, outcome, ...dial }: DialMessage): ExplainedDial {
  return {
    ...dial,
    outcome: outcome as ExplainedDial['outcome'],
    ...(target === undefined ? {} : { target: targetFromMessage(target) }),
  };
}

function targetFromMessage({
  $typeName: _,
  $unknown: __,
  protocol,
  endpoints,
  ...target
}: TargetMessage): ExplainedTarget {
  return {
    ...target,
    protocol: protocol === Service_Protocol.TCP ? 'tcp' : 'http',
    endpoints: endpoints.map(({ ip, pod, node, health, available }) => ({
      ip,
      pod,
      node,
      health: healthFromMessage(health),
      available,
    })),
  };
}

const HEALTHS: readonly Health[] = ['healthy', 'unhealthy', 'draining'];

function healthFromMessage(message: ServiceEndpoint_Health): Health {
  return HEALTHS.find((health) => healthToMessage(health) === message) ?? 'unspecified';
}
