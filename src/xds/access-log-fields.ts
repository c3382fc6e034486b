// What stands in a record of the access log: field -> Envoy's command operators. Names as the Go mesh has them, so that its
// dashboards read ours.

/** Field -> format string. */
export type LogFields = Readonly<Record<string, string>>;

const COMMON: LogFields = {
  start_time: '%START_TIME%',
  duration_ms: '%DURATION%',
  bytes_received: '%BYTES_RECEIVED%',
  bytes_sent: '%BYTES_SENT%',
  response_flags: '%RESPONSE_FLAGS%',
  connection_termination_details: '%CONNECTION_TERMINATION_DETAILS%',
  upstream_transport_failure_reason: '%UPSTREAM_TRANSPORT_FAILURE_REASON%',
  upstream_host: '%UPSTREAM_HOST%',
  upstream_cluster: '%UPSTREAM_CLUSTER%',
  downstream_local_address: '%DOWNSTREAM_LOCAL_ADDRESS%',
  downstream_remote_address: '%DOWNSTREAM_REMOTE_ADDRESS%',
  requested_server_name: '%REQUESTED_SERVER_NAME%',
};

/** Of a connection of raw TCP; `chain` is the filter chain that took it, `peer` the identity at its other end. */
export const TCP_FIELDS: LogFields = {
  ...COMMON,
  chain: '%FILTER_CHAIN_NAME%',
  downstream_peer: '%DOWNSTREAM_PEER_URI_SAN%',
};

/** Of an HTTP request. */
export const HTTP_FIELDS: LogFields = {
  ...COMMON,
  method: '%REQ(:METHOD)%',
  path: '%REQ(X-ENVOY-ORIGINAL-PATH?:PATH)%',
  protocol: '%PROTOCOL%',
  authority: '%REQ(:AUTHORITY)%',
  response_code: '%RESPONSE_CODE%',
  response_code_details: '%RESPONSE_CODE_DETAILS%',
  upstream_service_time: '%RESP(X-ENVOY-UPSTREAM-SERVICE-TIME)%',
  upstream_local_address: '%UPSTREAM_LOCAL_ADDRESS%',
  x_forwarded_for: '%REQ(X-FORWARDED-FOR)%',
  x_request_id: '%REQ(X-REQUEST-ID)%',
  user_agent: '%REQ(USER-AGENT)%',
  traceparent: '%REQ(TRACEPARENT)%',
  route_name: '%ROUTE_NAME%',
};
