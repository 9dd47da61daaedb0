"""Objectives and windows become recording rules, alerting rules, Alertmanager routes and their tests."""
