// Delta ADS on the wire: envoy/service/discovery/v3/{ads,discovery}.proto, to and from the session's own words.
import { create, fromBinary, toBinary } from '@bufbuild/protobuf';
import type { MethodDefinition } from '@grpc/grpc-js';
import type { AdsRequest, AdsResponse } from '../../agent/ads-protocol.ts';
import { AggregatedDiscoveryService } from '../../gen/envoy/service/discovery/v3/ads_pb.js';
import {
  type DeltaDiscoveryRequest,
  DeltaDiscoveryRequestSchema,
  DeltaDiscoveryResponseSchema,
} from '../../gen/envoy/service/discovery/v3/discovery_pb.js';
import { SCHEMAS } from '../../xds/encode-resource.ts';
import { PUSH_ORDER, type ResourceKind } from '../../xds/resource.ts';

/** The stream that Envoy opens; requests are left as messages, since their type may be one that we don't serve. */
export const DELTA_METHOD: MethodDefinition<DeltaDiscoveryRequest, AdsResponse> = {
  path: `/${AggregatedDiscoveryService.typeName}/${AggregatedDiscoveryService.method.deltaAggregatedResources.name}`,
  requestStream: true,
  responseStream: true,
  requestSerialize: (request) => Buffer.from(toBinary(DeltaDiscoveryRequestSchema, request)),
  requestDeserialize: (bytes) => fromBinary(DeltaDiscoveryRequestSchema, bytes),
  responseSerialize: encodeResponse,
  responseDeserialize: decodeResponse,
};

/** `type.googleapis.com/envoy.config.cluster.v3.Cluster`, … */
export function typeUrlOf(kind: ResourceKind): string {
  return `type.googleapis.com/${SCHEMAS[kind].typeName}`;
}

const KIND_OF_TYPE_URL: ReadonlyMap<string, ResourceKind> = new Map(PUSH_ORDER.map((kind) => [typeUrlOf(kind), kind]));

/** The kind of a resource by its type URL; undefined for a type that we don't serve. */
export function kindOfTypeUrl(typeUrl: string): ResourceKind | undefined {
  return KIND_OF_TYPE_URL.get(typeUrl);
}

/** The request in the session's words; undefined for a type that we don't serve. */
export function readRequest(message: DeltaDiscoveryRequest): AdsRequest | undefined {
  const kind = KIND_OF_TYPE_URL.get(message.typeUrl);
  if (kind === undefined) return undefined;
  return {
    kind,
    subscribe: message.resourceNamesSubscribe,
    unsubscribe: message.resourceNamesUnsubscribe,
    initialVersions: message.initialResourceVersions,
    nonce: message.responseNonce,
    ...(message.errorDetail === undefined ? {} : { error: message.errorDetail.message }),
  };
}

function encodeResponse(response: AdsResponse): Buffer {
  const typeUrl = typeUrlOf(response.kind);
  const message = create(DeltaDiscoveryResponseSchema, {
    typeUrl,
    nonce: response.nonce,
    resources: response.resources.map(({ name, version, bytes }) => ({
      name,
      version,
      resource: { typeUrl, value: bytes },
    })),
    removedResources: [...response.removed],
  });
  return Buffer.from(toBinary(DeltaDiscoveryResponseSchema, message));
}

function decodeResponse(bytes: Buffer): AdsResponse {
  const message = fromBinary(DeltaDiscoveryResponseSchema, bytes);
  const kind = KIND_OF_TYPE_URL.get(message.typeUrl);
  if (kind === undefined) throw new TypeError(`reading a response: unknown type "${message.typeUrl}"`);
  return {
    kind,
    nonce: message.nonce,
    resources: message.resources.map(({ name, version, resource }) => ({
      kind,
      name,
      version,
      bytes: resource?.value ?? new Uint8Array(),
    })),
    removed: message.removedResources,
  };
}
