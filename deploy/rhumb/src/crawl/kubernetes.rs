//! Kubernetes: what the conductor asks the cluster that it runs in, and what it tells there.
//!
//! In: the names of StatefulSets. Out: their numbers of replicas; events for whoever looks at them.
//! The API server is asked over HTTPS with the token of the pod's service account, which needs the
//! rights to get these StatefulSets and to create events. Invariant: a cluster that does not answer
//! changes nothing.

use anyhow::Context as _;
use reqwest::{Client, RequestBuilder, StatusCode};
use rhumb_config::ConfigError;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use rustls::{ClientConfig, RootCertStore};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

/// Where a pod finds what it needs to ask the API server.
const ACCOUNT: &str = "/var/run/secrets/kubernetes.io/serviceaccount";
/// Between two questions about the same StatefulSet.
const LOOK_EVERY: Duration = Duration::from_secs(2);
/// How long the API server may take to answer.
const ANSWER_MAX: Duration = Duration::from_secs(2);
/// Between two lines about an API server that does not answer.
const SAY_EVERY: Duration = Duration::from_secs(60);

/// The cluster.
pub(super) struct Kubernetes {
    client: Client,
    /// `https://host:port`
    server: String,
    namespace: String,
    /// By stage: the StatefulSet, and its replicas as they were last.
    followed: BTreeMap<String, (String, Option<u16>)>,
    next_look: Instant,
    said: Option<Instant>,
}

impl Kubernetes {
    /// The cluster that this process runs in.
    ///
    /// # Errors
    /// It runs in none, or its service account has no token here.
    pub(super) fn of_this_pod(statefulsets: &BTreeMap<String, String>) -> anyhow::Result<Self> {
        let variable = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
        let host = variable("KUBERNETES_SERVICE_HOST");
        let port = variable("KUBERNETES_SERVICE_PORT");
        let (Some(host), Some(port)) = (host, port) else {
            let message = "--statefulset: this process runs in no pod of Kubernetes \
                           (KUBERNETES_SERVICE_HOST is not set); leave it away elsewhere";
            return Err(ConfigError::Range(vec![message.to_owned()]).into());
        };
        let host = if host.contains(':') {
            format!("[{host}]")
        } else {
            host
        };
        let folder = Path::new(ACCOUNT);
        let namespace = std::fs::read_to_string(folder.join("namespace")).with_context(|| {
            format!("the pod has no service account: cannot read {ACCOUNT}/namespace")
        })?;
        Kubernetes::at(
            &format!("https://{host}:{port}"),
            namespace.trim(),
            &folder.join("ca.crt"),
            statefulsets,
        )
    }

    fn at(
        server: &str,
        namespace: &str,
        authority: &Path,
        statefulsets: &BTreeMap<String, String>,
    ) -> anyhow::Result<Self> {
        let mut roots = RootCertStore::empty();
        for certificate in CertificateDer::pem_file_iter(authority).with_context(|| {
            format!(
                "cannot read the cluster's certificates in {}",
                authority.display()
            )
        })? {
            roots
                .add(certificate.with_context(|| format!("{} is damaged", authority.display()))?)?;
        }
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let tls = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_root_certificates(roots)
            .with_no_client_auth();
        let client = Client::builder()
            .tls_backend_preconfigured(tls)
            .no_proxy()
            .timeout(ANSWER_MAX)
            .build()?;
        let followed = statefulsets
            .iter()
            .map(|(stage, name)| (stage.clone(), (name.clone(), None)))
            .collect();
        let server = server.to_owned();
        let namespace = namespace.to_owned();
        let next_look = Instant::now();
        Ok(Kubernetes {
            client,
            server,
            namespace,
            followed,
            next_look,
            said: None,
        })
    }

    /// The StatefulSet of a stage and its replicas, as far as they are known; none when the stage
    /// follows none.
    pub(super) fn followed(&self, stage: &str) -> Option<(&str, Option<u16>)> {
        self.followed
            .get(stage)
            .map(|(name, replicas)| (name.as_str(), *replicas))
    }

    /// Asks for the replicas of each StatefulSet, if it is time to. Those that have none are left
    /// out: their partitions stay where they are.
    pub(super) async fn look(&mut self) -> Vec<(String, u16)> {
        if self.next_look > Instant::now() {
            return Vec::new();
        }
        self.next_look = Instant::now() + LOOK_EVERY;
        let mut found = Vec::new();
        for (stage, name) in self
            .followed
            .iter()
            .map(|(stage, (name, _))| (stage.clone(), name.clone()))
            .collect::<Vec<_>>()
        {
            match self.replicas(&name).await {
                Ok(replicas) => {
                    if let Some((_, known)) = self.followed.get_mut(&stage) {
                        *known = Some(replicas);
                    }
                    found.extend(Some((stage, replicas)).filter(|_| replicas > 0));
                }
                Err(error) => self.say(&format!(
                    "the replicas of the StatefulSet {name} are not known: {error:#}"
                )),
            }
        }
        found
    }

    async fn replicas(&self, name: &str) -> anyhow::Result<u16> {
        let url = format!(
            "{}/apis/apps/v1/namespaces/{}/statefulsets/{name}",
            self.server, self.namespace
        );
        let answer = self
            .authorized(self.client.get(url))?
            .send()
            .await
            .context("the API server does not answer")?;
        let status = answer.status();
        anyhow::ensure!(
            status == StatusCode::OK,
            "the API server answers {status}; the service account may lack rights"
        );
        let body: Value = serde_json::from_slice(&answer.bytes().await?)?;
        let replicas = body
            .pointer("/spec/replicas")
            .and_then(Value::as_u64)
            .unwrap_or(1);
        u16::try_from(replicas).context("more replicas than instances can have")
    }

    /// Creates an event about the StatefulSets.
    pub(super) async fn event(&mut self, reason: &str, kind: &str, message: &str) {
        for name in self
            .followed
            .values()
            .map(|(name, _)| name.clone())
            .collect::<Vec<_>>()
        {
            if let Err(error) = self.create_event(&name, reason, kind, message).await {
                self.say(&format!("an event cannot be created: {error:#}"));
            }
        }
    }

    async fn create_event(
        &self,
        name: &str,
        reason: &str,
        kind: &str,
        message: &str,
    ) -> anyhow::Result<()> {
        let now = humantime::format_rfc3339_seconds(SystemTime::now()).to_string();
        let event = json!({
            "apiVersion": "v1", "kind": "Event",
            "metadata": { "generateName": format!("{name}."), "namespace": self.namespace },
            "involvedObject": {
                "apiVersion": "apps/v1", "kind": "StatefulSet", "name": name, "namespace": self.namespace,
            },
            "reason": reason, "type": kind, "message": message, "count": 1,
            "firstTimestamp": now, "lastTimestamp": now,
            "source": { "component": "rhumb-conductor" },
        });
        let url = format!(
            "{}/api/v1/namespaces/{}/events",
            self.server, self.namespace
        );
        let request = self
            .client
            .post(url)
            .header("content-type", "application/json")
            .body(event.to_string());
        let status = self
            .authorized(request)?
            .send()
            .await
            .context("the API server does not answer")?
            .status();
        anyhow::ensure!(
            status.is_success(),
            "the API server answers {status}; the service account may lack rights"
        );
        Ok(())
    }

    /// With the pod's token, which the cluster renews in its file.
    fn authorized(&self, request: RequestBuilder) -> anyhow::Result<RequestBuilder> {
        let token = std::fs::read_to_string(Path::new(ACCOUNT).join("token"))
            .context("cannot read the pod's token")?;
        Ok(request.bearer_auth(token.trim()))
    }

    fn say(&mut self, what: &str) {
        if self.said.is_none_or(|said| said.elapsed() >= SAY_EVERY) {
            self.said = Some(Instant::now());
            tracing::warn!("{what}");
        }
    }
}
