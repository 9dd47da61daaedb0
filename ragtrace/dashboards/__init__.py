"""The dashboards: what their panels ask, their JSON for Grafana, and a preview of them without it."""
