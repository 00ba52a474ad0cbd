"""TODO: conversion."""
