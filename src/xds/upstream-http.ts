// How Envoy speaks HTTP to an upstream: envoy/extensions/upstreams/http/v3/http_protocol_options.proto.
import { create, type MessageInitShape } from '@bufbuild/protobuf';
import { anyPack } from '@bufbuild/protobuf/wkt';
import { HttpProtocolOptionsSchema } from '../gen/envoy/extensions/upstreams/http/v3/http_protocol_options_pb.js';
import { milliseconds } from './envoy-values.ts';

const IDLE_TIMEOUT_MS = 30_000;

/** HTTP/2, WebSockets as extended CONNECT. */
export function speakH2() {
  return protocolOptions({
    commonHttpProtocolOptions: { idleTimeout: milliseconds(IDLE_TIMEOUT_MS) },
    upstreamProtocolOptions: {
      case: 'explicitHttpConfig',
      value: { protocolConfig: { case: 'http2ProtocolOptions', value: { allowConnect: true } } },
    },
  });
}

/** The protocol that the client speaks. */
export function sameAsDownstream() {
  return protocolOptions({
    commonHttpProtocolOptions: { idleTimeout: milliseconds(IDLE_TIMEOUT_MS) },
    upstreamProtocolOptions: {
      case: 'useDownstreamProtocolConfig',
      value: { httpProtocolOptions: {}, http2ProtocolOptions: { allowConnect: true } },
    },
  });
}

function protocolOptions(init: MessageInitShape<typeof HttpProtocolOptionsSchema>) {
  return {
    'envoy.extensions.upstreams.http.v3.HttpProtocolOptions': anyPack(
      HttpProtocolOptionsSchema,
      create(HttpProtocolOptionsSchema, init),
    ),
  };
}
